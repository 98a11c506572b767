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
        self.peak = self.peak.max(self.current);
        self.allocated += by;
    }

    #[inline]
    pub(super) fn decrease(&mut self, by: u64) {
        debug_assert!(by <= self.current, "a statistic fell below zero");
        self.current -= by;
    }

    /// Increase, decrease or neither, by sign.
    #[inline]
    pub(super) fn shift(&mut self, by: i64) {
        match by {
            0 => {}
            1.. => self.increase(by.unsigned_abs()),
            _ => self.decrease(by.unsigned_abs()),
        }
    }
}

/// A [`Stat`] of both pools together and of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatArray {
    /// Both pools.
    pub all: Stat,
    /// The small pool.
    pub small_pool: Stat,
    /// The large pool.
    pub large_pool: Stat,
}

impl StatArray {
    #[inline]
    fn of(&mut self, pool: PoolKind) -> &mut Stat {
        match pool {
            PoolKind::Small => &mut self.small_pool,
            PoolKind::Large => &mut self.large_pool,
        }
    }

    #[inline]
    pub(super) fn increase(&mut self, pool: PoolKind, by: u64) {
        self.all.increase(by);
        self.of(pool).increase(by);
    }

    #[inline]
    pub(super) fn decrease(&mut self, pool: PoolKind, by: u64) {
        self.all.decrease(by);
        self.of(pool).decrease(by);
    }

    #[inline]
    pub(super) fn shift(&mut self, pool: PoolKind, by: i64) {
        self.all.shift(by);
        self.of(pool).shift(by);
    }

    /// The three stats with their names in PyTorch's keys.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Stat); 3] {
        [("all", self.all), ("small_pool", self.small_pool), ("large_pool", self.large_pool)]
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
        self.every_stat().into_iter().for_each(|stat| stat.peak = stat.current);
    }

    /// The same with peaks at least as high as `past` has them.
    #[must_use]
    pub fn with_peaks(mut self, past: &Self) -> Self {
        let mut past = *past;
        for (stat, past) in self.every_stat().into_iter().zip(past.every_stat()) {
            stat.peak = stat.peak.max(past.peak);
        }
        self
    }

    /// What is kept, each once.
    fn every_stat(&mut self) -> Vec<&mut Stat> {
        let arrays = [
            &mut self.allocation,
            &mut self.allocated_bytes,
            &mut self.requested_bytes,
            &mut self.segment,
            &mut self.reserved_bytes,
            &mut self.inactive_split,
            &mut self.inactive_split_bytes,
        ];
        let stats = arrays.into_iter().flat_map(|a| [&mut a.all, &mut a.small_pool, &mut a.large_pool]);
        stats.chain([&mut self.oversize_allocations, &mut self.oversize_segments]).collect()
    }
}
