//! Random numbers for the order and for random steps: SplitMix64, begun from what the numbers are for, so that nobody's numbers depend
//! on who drew before.

/// What random numbers are for: each has a sequence of its own. Its number is part of what seeds it, so that the numbers stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Nothing: no step that is packed draws any.
    Packing = 0,
    /// The order of an epoch.
    Order = 1,
    /// The random steps of a sample.
    Preparing = 2,
}

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence for `number` under a seed: of an epoch, or of a position in the run.
    pub(super) fn new(seed: u64, purpose: Purpose, number: u64) -> Self {
        let mut state = 0;
        for part in [seed, purpose as u64, number] {
            state = mix(state ^ part);
        }
        Self(state)
    }

    /// 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(n);
        u64::try_from(product >> 64).expect("the upper half of 128 bits is 64")
    }

    /// A number from 0 on, below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// SplitMix64's output function.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
