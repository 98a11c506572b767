//! Random numbers: which stream an operator draws from. Streams are numbered in the order of their use, and a recomputation begins
//! where its first run began, so that it repeats the same numbers. Drawing is the device's.

use std::cell::Cell;

/// Numbers streams.
#[derive(Debug, Default)]
pub struct Generator {
    next: Cell<Stream>,
}

/// A stream of random numbers, drawn from by one operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stream {
    /// The experiment's seed.
    pub seed: u64,
    /// Its number.
    pub number: u64,
}

impl Generator {
    /// A stream that nobody has drawn from.
    #[must_use]
    pub fn draw(&self) -> Stream {
        let stream = self.next.get();
        self.next.set(Stream { number: stream.number + 1, ..stream });
        stream
    }

    /// What the next [`draw`](Self::draw) will give.
    #[must_use]
    pub fn state(&self) -> Stream {
        self.next.get()
    }

    /// Goes back to a state, or starts from another seed.
    pub fn set_state(&self, state: Stream) {
        self.next.set(state);
    }
}
