//! Who listens to a run.

use crate::record::{Measured, MicroStep};
use crate::save::{SaveError, Snapshot};
use crate::tensor::Memory;

/// Receives rows and micro-steps as they occur.
pub trait Observer {
    /// A phase has ended, or memory ran out in it.
    fn row(&mut self, row: &Measured);

    /// A micro-step has ended. Scripts have none.
    fn micro_step(&mut self, done: &MicroStep);

    /// A step's loss is to be told, as `[log]` asks.
    fn log(&mut self, _step: u64, _loss: Option<f64>) {}

    /// The state after a step is to be saved, as `[save]` asks.
    ///
    /// # Errors
    /// It cannot be: the run ends.
    fn save(&mut self, _snapshot: Snapshot) -> Result<(), SaveError> {
        Ok(())
    }

    /// The script has come to its end, and its variables are still alive. Where memory runs out it does not come to that.
    fn end(&mut self, _memory: &Memory) {}
}
