//! What an optimizer declares of itself from shapes alone: its state, and, in order, what a step allocates and frees.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::{Effect, Slot};

/// What the constructor or a step does to memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepRecipe {
    /// In order.
    pub effects: Vec<Effect>,
    /// Slots that stay allocated as optimizer state.
    pub state: Vec<Slot>,
    /// Slots that a Python variable comes to hold.
    pub bound: Vec<Bound>,
}

/// A slot that a Python variable holds from the moment that slot `since` is allocated: its own, or the last one of its list. Variables outlive an
/// exception, as long as its traceback is there; what only an operator held does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The slot.
    pub slot: Slot,
    /// The slot whose allocation completes what the variable is bound to.
    pub since: Slot,
}

/// The memory rule of an optimizer.
pub trait OptimRule: std::fmt::Debug {
    /// What the constructor allocates (Adagrad's sums; nothing for the others).
    fn construct(&self, parameters: &[TensorMeta]) -> StepRecipe {
        let _ = parameters;
        StepRecipe::default()
    }

    /// What step number `step` (from 1, counting steps that were not skipped) does. Every parameter has a gradient of its own shape.
    fn step(&self, parameters: &[TensorMeta], step: u64) -> StepRecipe;
}

/// A step being written: effects as in any recipe, and what of them stays.
#[derive(Debug, Default)]
pub struct StepWriter {
    recipe: Recipe,
    state: Vec<Slot>,
    bound: Vec<Bound>,
}

impl StepWriter {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// State of that many bytes.
    pub fn state(&mut self, bytes: u64) {
        let slot = self.recipe.alloc(bytes);
        self.state.push(slot);
    }

    /// A tensor of a parameter's shape.
    pub fn like(&mut self, parameter: &TensorMeta) -> Slot {
        self.recipe.tensor(parameter)
    }

    /// A tensor that exists no longer.
    pub fn free(&mut self, slot: Slot) {
        self.recipe.free(slot);
    }

    /// A Python variable is assigned anew: its old tensor dies once the new one exists.
    pub fn assign(&mut self, variable: &mut Option<Slot>, new: Option<Slot>) {
        self.bound.extend(new.map(|slot| Bound { slot, since: slot }));
        if let Some(old) = std::mem::replace(variable, new) {
            self.recipe.free(old);
        }
    }

    /// One tensor a parameter, as a multi-tensor kernel returns them, for a Python variable.
    pub fn list(&mut self, parameters: &[TensorMeta]) -> Vec<Slot> {
        let list: Vec<_> = parameters.iter().map(|p| self.recipe.tensor(p)).collect();
        if let Some(&since) = list.last() {
            self.bound.extend(list.iter().map(|&slot| Bound { slot, since }));
        }
        list
    }

    /// A Python list dies: its last element first.
    pub fn free_list(&mut self, list: Vec<Slot>) {
        list.into_iter().rev().for_each(|slot| self.recipe.free(slot));
    }

    /// The recipe.
    #[must_use]
    pub fn finish(self) -> StepRecipe {
        StepRecipe { effects: self.recipe.into_effects(), state: self.state, bound: self.bound }
    }
}
