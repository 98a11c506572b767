//! Micro-steps whose loss may be on its way still: nobody waits for the device to tell of one.

use super::clock::Clock;
use crate::exec::{Exec, Later, Reached};
use crate::record::{Load, MicroStep, StepTimes};

/// How many micro-steps may go by untold: the device has room for the losses of twice as many.
pub(super) const MOST_UNTOLD: usize = 128;

/// A micro-step that nobody was told of yet.
pub(super) struct Untold {
    pub(super) step: u64,
    pub(super) micro_step: u64,
    pub(super) loss: Option<Later>,
    pub(super) found_inf: Option<Later>,
    pub(super) seconds: f64,
    pub(super) times: StepTimes,
    /// Where the device begins and ends to compute it, where that is measured.
    pub(super) computing: Option<(Reached, Reached)>,
    pub(super) load: Load,
}

impl Untold {
    /// The micro-step, once the device was waited for.
    pub(super) fn told(self, exec: &Exec, clock: &mut Clock) -> MicroStep {
        let Self { step, micro_step, seconds, mut times, load, .. } = self;
        if let Some((from, to)) = self.computing {
            let began = clock.seconds_at(exec, from);
            times.computing = Some((began, began + exec.seconds_between(from, to)));
        }
        let loss = self.loss.and_then(|loss| exec.value(loss));
        let skipped = self.found_inf.and_then(|found| exec.value(found)).is_some_and(|found| found != 0.0);
        MicroStep { step, micro_step, loss, skipped, seconds, times, load }
    }
}
