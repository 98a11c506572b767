//! What a save holds.

use serde::{Deserialize, Serialize};

use crate::meta::DType;

/// A tensor in the program's own memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its name: a parameter's or buffer's own, `optimizer.STATE.PARAMETER` for an optimizer's.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its elements, row-major.
    pub bytes: Vec<u8>,
}

/// The numbers beside the tensors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct About {
    /// Optimizer steps done.
    pub step: u64,
    /// The number of the next stream of random numbers.
    pub random: u64,
    /// The optimizer's name.
    pub optimizer: Option<String>,
    /// Steps that the optimizer counts itself, by parameter.
    pub optimizer_steps: Vec<u64>,
    /// The gradient scaler's scale, and how many steps in a row were fine.
    pub scaler: Option<(f32, u32)>,
}

/// The state of a run after a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The numbers.
    pub about: About,
    /// The tensors.
    pub tensors: Vec<Stored>,
}

impl Snapshot {
    /// The tensor of that name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Stored> {
        self.tensors.iter().find(|t| t.name == name)
    }
}
