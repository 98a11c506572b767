//! Expandable segments: one long stretch of address space a pool, behind which memory is mapped page by page as blocks reach
//! further and taken away as whole pages fall free. Blocks tile the stretch from end to end; the last is usually unmapped.

use super::allocator::Allocator;
use super::block::{Index, NONE, Node, Slab, State};
use super::event::Action;
use super::free_set::Place;
use super::pool::{Pool, PoolKind};
use super::size::SMALL_SEGMENT;

/// One stretch of address space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    pub(super) base: u64,
    pub(super) bytes: u64,
}

impl Pool {
    /// From the best fit on, the block that could grow least in place: PyTorch prefers to leave room before unmapped space.
    pub(super) fn least_expandable(&self, nodes: &Slab, mut place: Place) -> Place {
        let reach = |place: Place| {
            let node = &nodes[place.index];
            let beyond = if nodes[node.next].is(State::Unmapped) { nodes[node.next].size() } else { 0 };
            node.size() + beyond
        };
        while let Some(next) = self.free.after(&nodes.entries, place.index)
            && reach(next) < reach(place)
        {
            place = next;
        }
        place
    }
}

impl Allocator {
    /// The unit in which a pool's segments expand.
    pub(super) fn page(&self, kind: PoolKind) -> u64 {
        match kind {
            PoolKind::Small => SMALL_SEGMENT,
            PoolKind::Large => self.config.large_segment_size,
        }
    }

    /// Maps memory until a block of at least `size` is free, and takes it out of its pool. What was mapped before memory ran out
    /// stays mapped.
    pub(super) fn expand(&mut self, kind: PoolKind, size: u64) -> Option<Index> {
        let mut index = self.room_for(kind, size)?;
        if self.nodes[index].is(State::Unmapped) {
            self.map(index, size)?;
        }
        while self.nodes[index].size() < size {
            let beyond = self.nodes[index].next;
            self.map(beyond, size - self.nodes[index].size())?;
            // Mapping joined the two, and the joined block kept the upper one's index.
            index = beyond;
        }
        let (pool, nodes) = self.pool(kind);
        pool.take(nodes, index);
        Some(index)
    }

    /// Where the lowest run of free and unmapped blocks of `size` together begins; a new reservation if there is none.
    fn room_for(&mut self, kind: PoolKind, size: u64) -> Option<Index> {
        let (pool, nodes) = self.pool(kind);
        let vacant = |index: Index| index != NONE && !nodes[index].is(State::Allocated);
        for &unmapped in pool.unmapped.values() {
            let prev = nodes[unmapped].prev;
            let start = if vacant(prev) { prev } else { unmapped };
            let (mut room, mut at) = (0, start);
            while room < size && vacant(at) {
                room += nodes[at].size();
                at = nodes[at].next;
            }
            if room >= size {
                return Some(start);
            }
        }
        self.reserve(kind)
    }

    /// Address space for an eighth more than all memory, in whole pages.
    fn reserve(&mut self, kind: PoolKind) -> Option<Index> {
        let total = self.backing.total_memory();
        let bytes = (total + total / 8).next_multiple_of(self.page(kind));
        let base = self.backing.reserve(bytes).ok()?;
        self.reservations.push(Reservation { base, bytes });
        let index = self.nodes.insert(Node::whole(base, bytes, kind));
        let (pool, nodes) = self.pool(kind);
        pool.put_unmapped(nodes, index);
        Some(index)
    }

    /// Puts memory behind the first `size` bytes of an unmapped block (at most all of it), in whole pages, and joins it to its free
    /// neighbours.
    fn map(&mut self, index: Index, size: u64) -> Option<()> {
        let node = &self.nodes[index];
        let (address, whole, kind) = (node.address, node.size(), node.pool());
        let page = self.page(kind);
        let pages = size.min(whole).div_ceil(page);
        let bytes = pages * page;
        self.backing.map(address, pages, page).ok()?;
        let (pool, nodes) = self.pool(kind);
        pool.take(nodes, index);
        if bytes < whole {
            let rest = nodes.split(index, bytes);
            pool.put_unmapped(nodes, rest);
        }
        self.join_neighbours(index, kind, State::Free);
        let (pool, nodes) = self.pool(kind);
        pool.put_free(nodes, index);
        self.stats.num_device_alloc += 1;
        self.stats.reserved_bytes.increase(kind, bytes);
        self.tell(Action::SegmentMap, bytes, address, bytes);
        Some(())
    }

    /// Takes the memory from behind the whole pages of a free block; a reservation left without any is given back.
    pub(super) fn contract(&mut self, index: Index) {
        let node = &self.nodes[index];
        let (address, size, kind) = (node.address, node.size(), node.pool());
        let Reservation { base, .. } = self.reservations[self.reservation_of(address)];
        let page = self.page(kind);
        let first = base + (address - base).next_multiple_of(page);
        let pages = (address + size).saturating_sub(first) / page;
        if pages == 0 {
            return;
        }
        let bytes = pages * page;
        let (pool, nodes) = self.pool(kind);
        pool.take(nodes, index);
        let mut middle = index;
        if first > address {
            middle = nodes.split(index, first - address);
            pool.put_free(nodes, index);
        }
        if nodes[middle].size() > bytes {
            let above = nodes.split(middle, bytes);
            pool.put_free(nodes, above);
        }
        self.backing.unmap(first, pages, page);
        self.join_neighbours(middle, kind, State::Unmapped);
        let (pool, nodes) = self.pool(kind);
        pool.put_unmapped(nodes, middle);
        self.stats.num_device_free += 1;
        self.stats.reserved_bytes.decrease(kind, bytes);
        self.tell(Action::SegmentUnmap, bytes, first, bytes);
        if !self.nodes[middle].is_split() {
            self.unreserve(middle);
        }
    }

    /// Gives back the address space of an unmapped block that is all of its reservation.
    fn unreserve(&mut self, index: Index) {
        let node = &self.nodes[index];
        let (address, kind) = (node.address, node.pool());
        let (pool, nodes) = self.pool(kind);
        pool.take(nodes, index);
        nodes.remove(index);
        let Reservation { base, bytes } = self.reservations.remove(self.reservation_of(address));
        self.backing.unreserve(base, bytes);
    }

    /// There is one reservation a pool, as a rule: no search structure would be faster than looking.
    fn reservation_of(&self, address: u64) -> usize {
        let found = self.reservations.iter().position(|r| (r.base..r.base + r.bytes).contains(&address));
        found.expect("an expandable block lies in a reservation")
    }
}
