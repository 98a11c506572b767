//! Everything that the allocator's answers to come depend on, as numbers to be compared with those of another moment.

use super::allocator::Allocator;
use super::block::{NONE, State};

impl Allocator {
    /// All blocks as they lie, by address, with how often the device was asked for memory or given it back. Between two moments of one allocator
    /// for which this is equal nothing has changed that decides which block a request gets: the backing was not called with success in between, and
    /// a backing that refuses changes nothing. `None` where blocks age ([`AllocatorConfig::garbage_threshold`](super::AllocatorConfig)).
    #[must_use]
    pub fn portrait(&self) -> Option<Vec<u64>> {
        if self.garbage_threshold.is_some() {
            return None;
        }
        let stats = &self.stats;
        let mut words = vec![stats.num_device_alloc, stats.num_device_free, stats.num_alloc_retries, stats.num_ooms];
        words.extend(self.reservations.iter().flat_map(|r| [r.base, r.bytes]));
        let mut blocks: Vec<[u64; 3]> = self
            .nodes
            .indices()
            .map(|index| {
                let node = &self.nodes[index];
                let states = [State::Allocated, State::Free, State::Unmapped].map(|state| u64::from(node.is(state)));
                let tags = [u64::from(node.prev == NONE), node.pool() as u64].into_iter().chain(states);
                [node.address, node.size(), tags.fold(0, |tags, tag| tags << 1 | tag)]
            })
            .collect();
        blocks.sort_unstable();
        words.extend(blocks.into_iter().flatten());
        Some(words)
    }
}
