//! Which micro-steps' computing is measured where measuring costs time: several one after the other, so that what lies between them is seen
//! too, and then none for a while. It reads no clock.
//!
//! Invariant: of micro-steps that cost something to measure, those that are take at most a hundredth of the time, once a run is as long as
//! from one stretch to the next.

use std::time::Duration;

/// Micro-steps one after the other.
const STRETCH: u32 = 32;
/// From the beginning of one stretch to that of the next, at least, for each second that measuring it costs.
const SELDOM: u32 = 100;

/// Stretches of micro-steps that are measured.
#[derive(Debug, Clone)]
pub struct Stretches {
    /// What it costs to measure one.
    cost: Duration,
    /// How many are left of this stretch.
    left: u32,
    /// When the next may begin, from the beginning of the loop.
    next: Duration,
}

impl Stretches {
    /// Measuring one micro-step takes the program `cost`.
    #[must_use]
    pub const fn new(cost: Duration) -> Self {
        Self { cost, left: 0, next: Duration::ZERO }
    }

    /// Whether a micro-step that begins so long after the loop did is to be measured.
    pub fn is_due(&mut self, now: Duration) -> bool {
        if self.left == 0 {
            if now < self.next {
                return false;
            }
            self.left = STRETCH;
            self.next = now + self.cost * STRETCH * SELDOM;
        }
        self.left -= 1;
        true
    }
}
