//! `[allocations]` files: tensors made and dropped by hand, as Python variables.

use crate::meta::TensorMeta;
use crate::record::Phase;

/// One step of an `[allocations]` file; each gives a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptStep {
    /// `name = torch.empty(shape)`: the new tensor exists before an old one of that name dies.
    Alloc {
        /// The variable.
        name: String,
        /// What it is.
        meta: TensorMeta,
    },
    /// `del name`.
    Free(String),
    /// `into = left + right`.
    Add {
        /// A variable.
        left: String,
        /// Another, or the same.
        right: String,
        /// The variable that takes the sum.
        into: String,
        /// Shape and type of the sum.
        meta: TensorMeta,
    },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
}

impl ScriptStep {
    /// The row's phase.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Alloc { .. } => Phase::Alloc,
            Self::Free(_) => Phase::Free,
            Self::Add { .. } => Phase::Add,
            Self::EmptyCache => Phase::EmptyCache,
        }
    }
}

/// The steps of an `[allocations]` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// In order.
    pub steps: Vec<ScriptStep>,
}
