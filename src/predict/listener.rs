//! What the predictor tells while it runs: every allocation with where it comes from, every free, a request that fails, every row.
//! `explain` listens.
//!
//! Invariant: a storage is told of once as allocated before it is told of as freed; its number may then be used again.

use crate::alloc::OutOfMemory;
use crate::model::LayerId;
use crate::ops::{Library, Slot};
use crate::record::{self, Category, Predicted};

/// The part of the loop that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The move of the model to the device, copies of batches, `[allocations]`.
    Copy,
    /// Forward, or the loss.
    Forward,
    /// Backward's formulas.
    Backward,
    /// Forward again, inside backward, for a checkpoint.
    Recompute,
    /// A gradient that the engine adds up or copies.
    Accumulate,
    /// The optimizer, or the gradient scaler.
    Optimizer,
}

impl Pass {
    /// The role of what an operator makes then, as by deed.
    #[must_use]
    pub const fn role(self) -> Category {
        match self {
            Self::Optimizer => record::Pass::Step.role(),
            Self::Backward | Self::Accumulate => record::Pass::Backward.role(),
            Self::Copy | Self::Forward | Self::Recompute => record::Pass::Forward.role(),
        }
    }
}

/// Where an allocation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// What was running.
    pub pass: Pass,
    /// The layer it belongs to, if to any.
    pub layer: Option<LayerId>,
    /// The operator, or a word for what is none.
    pub operator: &'static str,
    /// Which of the operator's slots, where its recipe names it.
    pub slot: Option<Slot>,
    /// The library whose workspace it is.
    pub library: Option<Library>,
    /// The role it begins in.
    pub category: Category,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// A storage was allocated.
    Allocated {
        /// Its number.
        storage: u32,
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the block, which is what counts.
        bytes: u64,
        /// Where from.
        origin: Origin,
    },
    /// A storage was freed.
    Freed {
        /// Its number.
        storage: u32,
    },
    /// A storage plays another role from now on: a gradient that became a parameter's.
    Becomes {
        /// Its number.
        storage: u32,
        /// The new role.
        category: Category,
    },
    /// There was no memory for a request; the row of the phase that it ends comes next.
    RanOut(OutOfMemory),
    /// A phase ended with this row.
    Row(Predicted),
}

/// Whoever wants to know.
pub trait Listener {
    /// Something happened.
    fn hear(&mut self, happening: &Happening);
}
