//! Random numbers by position: Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
//! No state: element `i` of a stream is the same whoever asks for it, in whatever order, so a recomputed dropout repeats its mask.

/// One stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Philox {
    seed: u64,
    stream: u64,
}

impl Philox {
    /// Stream number `stream` of a seed.
    #[must_use]
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self { seed, stream }
    }

    /// Elements `4 * group` to `4 * group + 3`, each uniform over 32 bits.
    #[must_use]
    pub fn bits(self, group: u64) -> [u32; 4] {
        let mut counter = [low(group), high(group), low(self.stream), high(self.stream)];
        let mut key = [low(self.seed), high(self.seed)];
        for round in 0..10 {
            if round > 0 {
                key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
            }
            let (a, b) = (0xD251_1F53 * u64::from(counter[0]), 0xCD9E_8D57 * u64::from(counter[2]));
            counter = [high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)];
        }
        counter
    }

    /// The same elements uniform in [0, 1), with the 24 bits that an f32 holds.
    #[must_use]
    pub fn uniform(self, group: u64) -> [f32; 4] {
        self.bits(group).map(|b| (b >> 8) as f32 * (1.0 / (1 << 24) as f32))
    }

    /// The same elements normal with mean 0 and deviation 1 (Box and Muller).
    #[must_use]
    pub fn normal(self, group: u64) -> [f32; 4] {
        let [a, b, c, d] = self.bits(group);
        let pair = |radius: u32, angle: u32| {
            // Never 0, whose logarithm is infinite.
            let radius = (-2.0 * ((f64::from(radius) + 1.0) / 4_294_967_296.0).ln()).sqrt();
            let angle = f64::from(angle) / 4_294_967_296.0 * std::f64::consts::TAU;
            [(radius * angle.cos()) as f32, (radius * angle.sin()) as f32]
        };
        let ([a, b], [c, d]) = (pair(a, b), pair(c, d));
        [a, b, c, d]
    }
}

const fn low(n: u64) -> u32 {
    n as u32
}

const fn high(n: u64) -> u32 {
    (n >> 32) as u32
}
