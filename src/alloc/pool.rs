//! The two pools. A block belongs to one for life, by its size when it was asked for; pools never lend to each other.

use std::collections::BTreeMap;

use super::block::{Index, Slab, State};
use super::free_set::FreeSet;

/// Which pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// Blocks up to 1 MiB, in segments of 2 MiB.
    Small,
    /// All others.
    Large,
}

impl PoolKind {
    #[inline(always)]
    pub(super) const fn at(large: bool) -> Self {
        if large { Self::Large } else { Self::Small }
    }

    /// The order in which PyTorch gives pools back.
    pub(super) const RELEASE_ORDER: [Self; 2] = [Self::Large, Self::Small];
}

/// What a pool holds that no client does.
#[derive(Debug)]
#[repr(align(64))] // a power of two large, for it is looked up by its kind all the time
pub(super) struct Pool {
    pub(super) free: FreeSet,
    /// Address space of expandable segments without memory behind it, by address.
    pub(super) unmapped: BTreeMap<u64, Index>,
    /// Searches so far, counted only while garbage is collected: the clock that ages free blocks.
    pub(super) searches: u64,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self { free: FreeSet::new(), unmapped: BTreeMap::new(), searches: 0 }
    }

    /// Takes in a node as free.
    #[inline(always)]
    pub(super) fn put_free(&mut self, nodes: &mut Slab, index: Index) {
        nodes[index].set_state(State::Free);
        if self.searches > 0 {
            nodes.set_freed_at(index, self.searches);
        }
        self.free.insert(&mut nodes.entries, index);
    }

    /// Takes in a node as address space.
    pub(super) fn put_unmapped(&mut self, nodes: &mut Slab, index: Index) {
        nodes[index].set_state(State::Unmapped);
        self.unmapped.insert(nodes[index].address, index);
    }

    /// Lets go of a node that is free or unmapped.
    #[inline(always)]
    pub(super) fn take(&mut self, nodes: &mut Slab, index: Index) {
        if nodes[index].is(State::Unmapped) {
            self.unmapped.remove(&nodes[index].address);
        } else {
            self.free.remove(&mut nodes.entries, index);
        }
    }
}
