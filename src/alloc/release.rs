//! Giving memory back: everything cached, just enough oversize blocks, or old blocks when memory gets scarce.
//! Only a segment that is one free block can go; expandable segments give back whole free pages.

use super::allocator::Allocator;
use super::block::Index;
use super::event::Action;
use super::pool::PoolKind;

impl Allocator {
    /// Everything cached, in PyTorch's order: the large pool, then the small; within each by size, then address.
    pub(super) fn release_cached(&mut self) {
        self.stats.num_sync_all_streams += 1;
        for kind in PoolKind::RELEASE_ORDER {
            let (pool, nodes) = self.pool(kind);
            for index in pool.free.to_vec(&nodes.entries) {
                if self.config.expandable_segments {
                    self.contract(index);
                } else if !self.nodes[index].is_split() {
                    self.release_segment(index);
                }
            }
        }
    }

    /// Cached blocks too large to be split, as many as make room for `size`; whether they do. One that is large enough goes alone,
    /// else the largest go first.
    pub(super) fn release_oversize(&mut self, kind: PoolKind, size: u64) -> bool {
        let Some(max_split) = self.config.max_split_size().filter(|_| !self.config.expandable_segments) else {
            return false;
        };
        let wanted = size.max(max_split);
        let (pool, nodes) = self.pool(kind);
        if let Some(place) = pool.free.best_fit(&nodes.entries, wanted) {
            return self.release_whole(place.index).is_some();
        }
        let mut released = 0;
        while released < wanted {
            let (pool, nodes) = self.pool(kind);
            let largest = pool.free.last_below(&nodes.entries, wanted).filter(|&i| nodes[i].size() >= max_split);
            match largest.and_then(|index| self.release_whole(index)) {
                Some(bytes) => released += bytes,
                None => return false,
            }
        }
        true
    }

    /// Once more than the threshold is reserved: whole large segments not used for longer than average, until the excess is gone.
    pub(super) fn collect_garbage(&mut self) {
        let Some(threshold) = self.garbage_threshold.filter(|_| !self.config.expandable_segments) else {
            return;
        };
        let excess = self.reserved().saturating_sub(threshold);
        let mut reclaimed = 0;
        while reclaimed < excess {
            let (pool, nodes) = self.pool(PoolKind::Large);
            let now = pool.searches;
            let mut idle = pool.free.to_vec(&nodes.entries);
            idle.retain(|&i| !nodes[i].is_split());
            let age = |i: Index| now - nodes.freed_at(i);
            let total_age: u64 = idle.iter().map(|&i| age(i)).sum();
            // age ≥ total ÷ count, in whole numbers
            let count = idle.len() as u64;
            idle.retain(|&i| age(i) * count >= total_age);
            if idle.is_empty() {
                return;
            }
            // A pass frees all that are old enough, beyond the excess if it comes to that.
            for index in idle {
                reclaimed += self.nodes[index].size();
                self.release_segment(index);
            }
        }
    }

    /// Releases a free block's segment if it is the whole of it; says how much that was.
    fn release_whole(&mut self, index: Index) -> Option<u64> {
        let node = &self.nodes[index];
        let bytes = node.size();
        (!node.is_split()).then(|| {
            self.release_segment(index);
            bytes
        })
    }

    fn release_segment(&mut self, index: Index) {
        let node = &self.nodes[index];
        let (address, bytes, kind) = (node.address, node.size(), node.pool());
        let (pool, nodes) = self.pool(kind);
        pool.take(nodes, index);
        nodes.remove(index);
        self.backing.release(address, bytes);
        self.stats.num_device_free += 1;
        self.stats.segment.decrease(kind, 1);
        self.stats.reserved_bytes.decrease(kind, bytes);
        if bytes >= self.config.max_split_size {
            self.stats.oversize_segments.decrease(1);
        }
        self.tell(Action::SegmentFree, bytes, address, bytes);
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        for segment in self.snapshot().segments {
            if segment.expandable {
                let page = self.page(segment.pool);
                self.backing.unmap(segment.address, segment.bytes / page, page);
            } else {
                self.backing.release(segment.address, segment.bytes);
            }
        }
        for reservation in &self.reservations {
            self.backing.unreserve(reservation.base, reservation.bytes);
        }
    }
}
