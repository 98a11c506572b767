//! Who listens to a run.

use crate::record::{Measured, MicroStep};
use crate::tensor::Memory;

/// Receives rows and micro-steps as they occur.
pub trait Observer {
    /// A phase has ended, or memory ran out in it.
    fn row(&mut self, row: &Measured);

    /// A micro-step has ended. Scripts have none.
    fn micro_step(&mut self, done: &MicroStep);

    /// The script has come to its end, and its variables are still alive. Where memory runs out it does not come to that.
    fn end(&mut self, _memory: &Memory) {}
}
