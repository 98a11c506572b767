//! What a run is given besides its plan, and how it can end early.

use crate::alloc::OutOfMemory;
use crate::data::{DataError, Feed};

/// What a run works with; by default nothing: batches are synthetic.
#[derive(Debug, Default)]
pub struct Outfit<'a> {
    /// Where batches come from.
    pub feed: Option<&'a Feed>,
}

/// Why a run ended before its last step. Its rows so far have been given.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// Memory ran out; the last row says so.
    #[error("{0}")]
    OutOfMemory(OutOfMemory),
    /// A batch could not be had.
    #[error("{0}")]
    Data(#[from] DataError),
}

impl From<OutOfMemory> for Stop {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}
