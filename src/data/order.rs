//! Which sample comes when. Position p of a run belongs to epoch p / samples; within an epoch samples come in the file's order, or each is
//! drawn from a buffer of those that come next, as `tf.data`'s shuffle does. The buffer holds numbers of samples, not samples.
//!
//! Invariant: the order of an epoch follows from the seed and the epoch's number alone.

use super::random::{Purpose, Random};

/// The samples of a run, by number.
#[derive(Debug)]
pub(super) struct Order {
    samples: u64,
    buffer_size: Option<u64>,
    repeat: bool,
    seed: u64,
    epoch: u64,
    /// Numbers of this epoch that have left the file's order already.
    read: u64,
    buffer: Vec<u64>,
    random: Random,
}

impl Order {
    /// From position `from` on.
    pub(super) fn new(samples: u64, shuffle: Option<u64>, repeat: bool, seed: u64, from: u64) -> Self {
        let epoch = from.checked_div(samples).unwrap_or(0);
        let random = Random::new(seed, Purpose::Order, epoch);
        let mut order = Self { samples, buffer_size: shuffle, repeat, seed, epoch, read: 0, buffer: Vec::new(), random };
        match shuffle {
            None => order.read = from - epoch * samples,
            Some(_) => {
                for _ in epoch * samples..from {
                    order.next();
                }
            }
        }
        order
    }

    fn draw(&mut self) -> Option<u64> {
        let Some(size) = self.buffer_size else {
            let number = Some(self.read).filter(|n| *n < self.samples);
            self.read += u64::from(number.is_some());
            return number;
        };
        while (self.buffer.len() as u64) < size && self.read < self.samples {
            self.buffer.push(self.read);
            self.read += 1;
        }
        if self.buffer.is_empty() {
            return None;
        }
        let at = usize::try_from(self.random.below(self.buffer.len() as u64)).expect("a buffer is addressed");
        Some(self.buffer.swap_remove(at))
    }
}

impl Iterator for Order {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if let Some(number) = self.draw() {
            return Some(number);
        }
        if !self.repeat || self.samples == 0 {
            return None;
        }
        self.epoch += 1;
        self.read = 0;
        self.random = Random::new(self.seed, Purpose::Order, self.epoch);
        self.draw()
    }
}
