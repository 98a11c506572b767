//! Who listens to a run.

use crate::record::{Measured, MicroStep};

/// Receives rows and micro-steps as they occur.
pub trait Observer {
    /// A phase has ended, or memory ran out in it.
    fn row(&mut self, row: &Measured);

    /// A micro-step has ended. Scripts have none.
    fn micro_step(&mut self, done: &MicroStep);
}
