//! What an optimizer declares of itself from shapes alone: its state, and, in order, what a step allocates and frees.

use crate::meta::TensorMeta;
use crate::ops::{Effect, Slot};

/// What the constructor or a step does to memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepRecipe {
    /// In order.
    pub effects: Vec<Effect>,
    /// Slots that stay allocated as optimizer state.
    pub state: Vec<Slot>,
}

/// The memory rule of an optimizer.
pub trait OptimRule: std::fmt::Debug {
    /// What the constructor allocates (Adagrad's sums; nothing for the others).
    fn construct(&self, parameters: &[TensorMeta]) -> StepRecipe;

    /// What step number `step` (from 1, counting steps that were not skipped) does. Every parameter has a gradient of its own shape.
    fn step(&self, parameters: &[TensorMeta], step: u64) -> StepRecipe;
}
