//! What a loop measures besides memory: points in the device's work, and what the machine shows meanwhile. Where it is not asked to, nothing
//! is done.

use std::time::{Duration, Instant};

use crate::exec::{Exec, Reached};
use crate::measure::Sampler;
use crate::record::Load;

/// Micro-steps one after the other whose computing is measured, so that what lies between them is seen too.
const STRETCH: u32 = 32;
/// From the beginning of one stretch to that of the next, at least, for each second that measuring it costs the program: it may cost a
/// hundredth of the time.
const SELDOM: u32 = 100;

/// The loop's clock.
pub(super) struct Clock {
    /// When the loop began.
    pub(super) began: Instant,
    sampler: Option<Sampler>,
    /// A point in the device's work, and when that was, in seconds since the loop began.
    known: Option<(Reached, f64)>,
    /// What it costs the program to measure one micro-step's computing.
    cost: Duration,
    /// Micro-steps that are left of this stretch.
    left: u32,
    /// When the next may begin.
    next: Instant,
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
        Self { began, sampler, known, cost: exec.cost_of_reaching() * 2, left: 0, next: began }
    }

    /// Whether the computing of a micro-step that begins now is to be measured: of each, unless they are so short that it would cost more than a
    /// hundredth of the time.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if self.known.is_none() || (self.left == 0 && now < self.next) {
            return false;
        }
        if self.left == 0 {
            self.left = STRETCH;
            self.next = now + self.cost * STRETCH * SELDOM;
        }
        self.left -= 1;
        true
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
