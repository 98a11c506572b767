//! What a run is given besides its plan, and how it can end early.

use crate::alloc::OutOfMemory;
use crate::data::{DataError, Feed};
use crate::meta::format_bytes;
use crate::save::{SaveError, Snapshot};

/// What a run works with; by default nothing: batches are synthetic.
#[derive(Debug, Default)]
pub struct Outfit<'a> {
    /// Where batches come from.
    pub feed: Option<&'a Feed>,
    /// The loss is told every so many steps, and not waited for in between.
    pub log: Option<u64>,
    /// The state is saved every so many steps.
    pub save: Option<u64>,
    /// Whether it is measured what the time of each micro-step goes to.
    pub timed: bool,
    /// What the run goes on from, after the steps that the plan says are done.
    pub resume: Option<&'a Snapshot>,
}

/// Why a run ended before its last step. Its rows so far have been given.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// Memory ran out; the last row says so.
    #[error("{0}")]
    OutOfMemory(OutOfMemory),
    /// The machine that stands in for the device has no memory left; what the device would have done is not known, so no row tells.
    #[error("this machine has not enough memory for it ({} asked)", format_bytes(.0.segment.unwrap_or(.0.requested)))]
    Machine(OutOfMemory),
    /// A batch could not be had.
    #[error("{0}")]
    Data(#[from] DataError),
    /// The device has failed; it tells how itself.
    #[error("the device has failed")]
    Device,
    /// The state could not be saved.
    #[error("{0}")]
    Save(#[from] SaveError),
}

impl From<OutOfMemory> for Stop {
    fn from(error: OutOfMemory) -> Self {
        if error.machine_is_full { Self::Machine(error) } else { Self::OutOfMemory(error) }
    }
}
