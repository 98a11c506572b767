//! When a device comes to a point in its work. The host is there when it is asked; a GPU tells later.

use std::time::{Duration, Instant};

use super::Exec;
use crate::device::Device;
use crate::device::cuda::Mark;

/// A point in the device's work.
#[derive(Debug, Clone, Copy)]
pub struct Reached(When);

#[derive(Debug, Clone, Copy)]
enum When {
    Now(Instant),
    Later(Mark),
}

impl Exec {
    /// The point at which all that was asked for so far is done. Of a GPU's, the last 512 can be asked about.
    #[must_use]
    pub fn reached(&self) -> Reached {
        Reached(match self.device() {
            Device::Cuda(gpu) => When::Later(gpu.mark()),
            Device::Host(_) | Device::Virtual => When::Now(Instant::now()),
        })
    }

    /// What a point costs the program, rather too much than too little. Of a GPU's it is an event that tells time and the question when it
    /// was: a micro-step with two of them took 6 µs longer on an H200. The host's cost nothing to speak of.
    #[must_use]
    pub fn cost_of_reaching(&self) -> Duration {
        match self.device() {
            Device::Cuda(_) => Duration::from_micros(4),
            Device::Host(_) | Device::Virtual => Duration::ZERO,
        }
    }

    /// Seconds from one point to a later one, once [`wait`](Self::wait) was called.
    #[must_use]
    pub fn seconds_between(&self, from: Reached, to: Reached) -> f64 {
        match (from.0, to.0, self.device()) {
            (When::Now(from), When::Now(to), _) => to.saturating_duration_since(from).as_secs_f64(),
            (When::Later(from), When::Later(to), Device::Cuda(gpu)) => gpu.seconds_between(from, to),
            _ => unreachable!("both are points of this device's work"),
        }
    }
}
