//! Statistics: what `torch.cuda.memory_stats()` counts, by its names.
//!
//! PyTorch also tells `active` blocks from allocated ones: those are freed by the program but still in use by another stream. Here
//! there is one stream, so the two are the same figure, kept once.

use super::pool::PoolKind;

/// A count or a sum of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// Now.
    pub current: u64,
    /// The highest since the last reset of peaks.
    pub peak: u64,
    /// All increases.
    pub allocated: u64,
}

impl Stat {
    /// All decreases.
    #[must_use]
    pub const fn freed(&self) -> u64 {
        self.allocated - self.current
    }

    #[inline]
    pub(super) fn increase(&mut self, by: u64) {
        self.current += by;
        self.allocated += by;
        raise(&mut self.peak, self.current);
    }

    #[inline]
    pub(super) fn decrease(&mut self, by: u64) {
        debug_assert!(by <= self.current, "a statistic fell below zero");
        self.current -= by;
    }

    fn reset_peak(&mut self) {
        self.peak = self.current;
    }

    fn raise_peak(&mut self, past: &Self) {
        self.peak = self.peak.max(past.peak);
    }
}

/// Lifts a peak to what is current, if that is higher: seldom, so a branch that is foreseen is cheaper than writing every time.
#[inline]
fn raise(peak: &mut u64, current: u64) {
    if current > *peak {
        set(peak, current);
    }
}

#[cold]
#[inline(never)]
fn set(peak: &mut u64, current: u64) {
    *peak = current;
}

/// A [`Stat`] of each pool, and of both together: of those only the peak is not the sum of the two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatArray {
    /// By [`PoolKind`].
    pools: [Stat; 2],
    /// The highest that both together were.
    peak: u64,
}

impl StatArray {
    /// Both pools.
    #[must_use]
    #[inline]
    pub const fn all(&self) -> Stat {
        let [small, large] = self.pools;
        Stat { current: small.current + large.current, peak: self.peak, allocated: small.allocated + large.allocated }
    }

    /// The small pool.
    #[must_use]
    pub const fn small_pool(&self) -> Stat {
        self.pools[PoolKind::Small as usize]
    }

    /// The large pool.
    #[must_use]
    pub const fn large_pool(&self) -> Stat {
        self.pools[PoolKind::Large as usize]
    }

    #[inline]
    pub(super) fn increase(&mut self, pool: PoolKind, by: u64) {
        self.pools[pool as usize].increase(by);
        let current = self.all().current;
        raise(&mut self.peak, current);
    }

    #[inline]
    pub(super) fn decrease(&mut self, pool: PoolKind, by: u64) {
        self.pools[pool as usize].decrease(by);
    }

    /// Increase, decrease or neither, by sign.
    #[inline]
    pub(super) fn shift(&mut self, pool: PoolKind, by: i64) {
        match by {
            0 => {}
            1.. => self.increase(pool, by.unsigned_abs()),
            _ => self.decrease(pool, by.unsigned_abs()),
        }
    }

    /// The three stats with their names in PyTorch's keys.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Stat); 3] {
        [("all", self.all()), ("small_pool", self.small_pool()), ("large_pool", self.large_pool())]
    }

    /// Every peak falls to what is current.
    fn reset_peaks(&mut self) {
        self.pools.iter_mut().for_each(Stat::reset_peak);
        self.peak = self.all().current;
    }

    /// Every peak rises to that of `past`.
    fn raise_peaks(&mut self, past: &Self) {
        self.pools.iter_mut().zip(&past.pools).for_each(|(stat, past)| stat.raise_peak(past));
        self.peak = self.peak.max(past.peak);
    }
}

/// Everything that is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks held by clients.
    pub allocation: StatArray,
    /// Their sizes.
    pub allocated_bytes: StatArray,
    /// What their clients asked for.
    pub requested_bytes: StatArray,
    /// Segments. Expandable ones are not counted.
    pub segment: StatArray,
    /// Their sizes, and mapped pages of expandable ones.
    pub reserved_bytes: StatArray,
    /// Free blocks that share their segment, which is why it cannot be given back. Expandable ones are not counted.
    pub inactive_split: StatArray,
    /// Their sizes.
    pub inactive_split_bytes: StatArray,
    /// Blocks too large to be split.
    pub oversize_allocations: Stat,
    /// Segments too large to be split.
    pub oversize_segments: Stat,
    /// Times everything cached was given back for the sake of one request.
    pub num_alloc_retries: u64,
    /// Requests that could not be met.
    pub num_ooms: u64,
    /// Times the device was waited for.
    pub num_sync_all_streams: u64,
    /// Segments allocated and runs of pages mapped.
    pub num_device_alloc: u64,
    /// Segments released and runs of pages unmapped.
    pub num_device_free: u64,
    /// The largest block that may be split; −1 is any.
    pub max_split_size: i64,
}

impl Stats {
    /// The nine arrays by PyTorch's names and in its order.
    #[must_use]
    pub fn arrays(&self) -> [(&'static str, &StatArray); 9] {
        [
            ("allocation", &self.allocation),
            ("segment", &self.segment),
            ("active", &self.allocation),
            ("inactive_split", &self.inactive_split),
            ("allocated_bytes", &self.allocated_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("active_bytes", &self.allocated_bytes),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
        ]
    }

    pub(super) fn reset_peaks(&mut self) {
        self.kept().into_iter().for_each(StatArray::reset_peaks);
        self.oversize_allocations.reset_peak();
        self.oversize_segments.reset_peak();
    }

    /// The same with peaks at least as high as `past` has them.
    #[must_use]
    pub fn with_peaks(mut self, past: &Self) -> Self {
        let mut earlier = *past;
        self.kept().into_iter().zip(earlier.kept()).for_each(|(array, past)| array.raise_peaks(past));
        self.oversize_allocations.raise_peak(&past.oversize_allocations);
        self.oversize_segments.raise_peak(&past.oversize_segments);
        self
    }

    /// The arrays that are kept, each once.
    fn kept(&mut self) -> [&mut StatArray; 7] {
        [
            &mut self.allocation,
            &mut self.allocated_bytes,
            &mut self.requested_bytes,
            &mut self.segment,
            &mut self.reserved_bytes,
            &mut self.inactive_split,
            &mut self.inactive_split_bytes,
        ]
    }
}
