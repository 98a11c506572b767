//! What a loop measures besides memory: points in the device's work, and what the machine shows meanwhile. Where it is not asked to,
//! nothing is done.

use std::time::Instant;

use crate::exec::{Exec, Reached};
use crate::measure::{Sampler, Stretches};
use crate::record::Load;

/// The loop's clock.
pub(super) struct Clock {
    /// When the loop began.
    pub(super) began: Instant,
    sampler: Option<Sampler>,
    /// A point in the device's work, and when that was, in seconds since the loop began.
    known: Option<(Reached, f64)>,
    stretches: Stretches,
}

impl Clock {
    /// Begins, once the device has nothing to do.
    pub(super) fn start(exec: &Exec, timed: bool) -> Self {
        let timed = timed && exec.computes();
        let sampler = timed.then(|| Sampler::start(exec.device()));
        let known = timed.then(|| {
            exec.wait();
            let now = exec.reached();
            exec.wait();
            (now, 0.0)
        });
        let began = Instant::now();
        Self { began, sampler, known, stretches: Stretches::new(exec.cost_of_reaching() * 2) }
    }

    /// Whether the computing of a micro-step that begins now is to be measured.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.known.is_some() && self.stretches.is_due(now.saturating_duration_since(self.began))
    }

    /// When that was, in seconds since the loop began. Points are asked for in order, each before 512 others were reached.
    pub(super) fn seconds_at(&mut self, exec: &Exec, point: Reached) -> f64 {
        let Some((known, seconds)) = self.known else { return 0.0 };
        let seconds = seconds + exec.seconds_between(known, point);
        self.known = Some((point, seconds));
        seconds
    }

    /// What the machine shows.
    pub(super) fn load(&self) -> Load {
        self.sampler.as_ref().map(Sampler::last).unwrap_or_default()
    }
}
