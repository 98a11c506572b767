//! The free blocks of a pool in order of (size, address), which is the whole of "best fit, lowest address among equals".
//!
//! Sizes fall into bins: exact up to 128 KiB, 128 to a power of two above. A bitmap finds the next bin in use; within a bin a
//! treap, linked through the nodes themselves, keeps the order. Bins are monotone in size, so bin by bin is in order throughout.
//! Most bins hold a handful of blocks, so most operations touch one or two nodes; equal sizes by the thousand still cost a logarithm.
//! Nothing is allocated after construction.

use super::block::{Index, NONE, Slab};
use super::size::MIN_BLOCK;

/// Bits of a size, below its leading one, that choose its bin.
const MANTISSA: u32 = 7;
const PER_OCTAVE: usize = 1 << MANTISSA;
/// Sizes in units of 512 bytes have up to 55 bits. Those below 2^(MANTISSA + 1) have bins of their own, two octaves' worth of them.
const BINS: usize = PER_OCTAVE * (55 - MANTISSA as usize + 1);
/// The bitmap of bins in use, and the bitmap of its words that are not 0.
const WORDS: usize = BINS.div_ceil(64);
const SUMMARY: usize = WORDS.div_ceil(64);

/// The bin of a block of `size`.
#[inline]
fn bin_of(size: u64) -> usize {
    let units = size / MIN_BLOCK;
    let shift = (units | PER_OCTAVE as u64).ilog2() - MANTISSA;
    // The leading bit stays in the quotient, so each octave starts where the one below it ended.
    shift as usize * PER_OCTAVE + (units >> shift) as usize
}

type Key = (u64, u64);

/// A set of free blocks. It owns their `children` links in the slab; sizes and addresses must not change while they are in it.
#[derive(Debug)]
pub(super) struct FreeSet {
    roots: Box<[Index; BINS]>,
    used: [u64; WORDS],
    used_words: [u64; SUMMARY],
}

/// Where a block is in the set, until the set next changes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) index: Index,
    link: Link,
    bin: usize,
}

/// A place that holds a link: a bin's root, or one of a node's two children.
#[derive(Clone, Copy)]
enum Link {
    Root(usize),
    Child(Index, usize),
}

impl FreeSet {
    pub(super) fn new() -> Self {
        Self { roots: Box::new([NONE; BINS]), used: [0; WORDS], used_words: [0; SUMMARY] }
    }

    /// The first block of at least `size`.
    #[inline]
    pub(super) fn best_fit(&self, nodes: &Slab, size: u64) -> Option<Place> {
        self.first_from(nodes, (size, 0))
    }

    /// The block after this one, in order.
    pub(super) fn after(&self, nodes: &Slab, index: Index) -> Option<Place> {
        let (size, address) = key(nodes, index);
        self.first_from(nodes, (size, address + 1))
    }

    /// The first block at `from` or after.
    #[inline]
    fn first_from(&self, nodes: &Slab, from: Key) -> Option<Place> {
        let bin = bin_of(from.0);
        let mut link = Link::Root(bin);
        let mut at = self.roots[bin];
        let mut found = None;
        while at != NONE {
            let side = usize::from(key(nodes, at) < from);
            if side == 0 {
                found = Some(Place { index: at, link, bin });
            }
            link = Link::Child(at, side);
            at = nodes[at].children()[side];
        }
        if found.is_some() {
            return found;
        }
        let bin = self.next_bin(bin + 1)?;
        let mut place = Place { index: self.roots[bin], link: Link::Root(bin), bin };
        while nodes[place.index].children()[0] != NONE {
            place = Place { index: nodes[place.index].children()[0], link: Link::Child(place.index, 0), bin };
        }
        Some(place)
    }

    /// The last block before size `below`.
    pub(super) fn last_below(&self, nodes: &Slab, below: u64) -> Option<Index> {
        let bin = bin_of(below);
        let mut found = NONE;
        let mut at = self.roots[bin];
        while at != NONE {
            if nodes[at].size() < below {
                found = at;
                at = nodes[at].children()[1];
            } else {
                at = nodes[at].children()[0];
            }
        }
        if found != NONE {
            return Some(found);
        }
        (0..bin).rev().find(|&b| self.roots[b] != NONE).map(|b| outermost(nodes, self.roots[b], 1))
    }

    /// All blocks, in order.
    pub(super) fn to_vec(&self, nodes: &Slab) -> Vec<Index> {
        let first = self.first_from(nodes, (0, 0));
        std::iter::successors(first, |place| self.after(nodes, place.index)).map(|place| place.index).collect()
    }

    #[inline]
    pub(super) fn insert(&mut self, nodes: &mut Slab, index: Index) {
        let new = key(nodes, index);
        let bin = bin_of(new.0);
        let at = self.roots[bin];
        if at == NONE {
            *nodes[index].children_mut() = [NONE; 2];
            self.roots[bin] = index;
            self.mark(bin);
        } else {
            self.insert_among(nodes, index, new, Link::Root(bin), at);
        }
    }

    /// Inserts below `link`, which holds `at`.
    fn insert_among(&mut self, nodes: &mut Slab, index: Index, new: Key, mut link: Link, mut at: Index) {
        let rank = priority(index);
        while at != NONE && priority(at) > rank {
            let side = usize::from(key(nodes, at) < new);
            link = Link::Child(at, side);
            at = nodes[at].children()[side];
        }
        self.set(nodes, link, index);
        // What was there is torn along the new key: lesser nodes under the left child, greater under the right.
        let mut tears = [Link::Child(index, 0), Link::Child(index, 1)];
        while at != NONE {
            let lesser = usize::from(key(nodes, at) < new);
            self.set(nodes, tears[1 - lesser], at);
            tears[1 - lesser] = Link::Child(at, lesser);
            at = nodes[at].children()[lesser];
        }
        self.set(nodes, tears[0], NONE);
        self.set(nodes, tears[1], NONE);
    }

    #[inline]
    pub(super) fn remove(&mut self, nodes: &mut Slab, index: Index) {
        let gone = key(nodes, index);
        let bin = bin_of(gone.0);
        let mut link = Link::Root(bin);
        let mut at = self.roots[bin];
        while at != index {
            let side = usize::from(key(nodes, at) < gone);
            link = Link::Child(at, side);
            at = nodes[at].children()[side];
        }
        self.remove_at(nodes, Place { index, link, bin });
    }

    /// Removes a block where it was just found.
    #[inline]
    pub(super) fn remove_at(&mut self, nodes: &mut Slab, place: Place) {
        if self.roots[place.bin] == place.index && nodes[place.index].children() == [NONE; 2] {
            self.roots[place.bin] = NONE;
            self.unmark(place.bin);
        } else {
            self.remove_among(nodes, place);
        }
    }

    /// Removes a block from a bin that keeps others: its subtrees are knit together in its place.
    fn remove_among(&mut self, nodes: &mut Slab, Place { index, mut link, .. }: Place) {
        let [mut left, mut right] = nodes[index].children();
        while left != NONE && right != NONE {
            if priority(left) > priority(right) {
                self.set(nodes, link, left);
                link = Link::Child(left, 1);
                left = nodes[left].children()[1];
            } else {
                self.set(nodes, link, right);
                link = Link::Child(right, 0);
                right = nodes[right].children()[0];
            }
        }
        self.set(nodes, link, if left == NONE { right } else { left });
    }

    #[inline]
    fn mark(&mut self, bin: usize) {
        self.used[bin / 64] |= 1 << (bin % 64);
        self.used_words[bin / 4096] |= 1 << (bin / 64 % 64);
    }

    #[inline]
    fn unmark(&mut self, bin: usize) {
        self.used[bin / 64] &= !(1 << (bin % 64));
        if self.used[bin / 64] == 0 {
            self.used_words[bin / 4096] &= !(1 << (bin / 64 % 64));
        }
    }

    #[inline]
    fn set(&mut self, nodes: &mut Slab, link: Link, to: Index) {
        match link {
            Link::Root(bin) => self.roots[bin] = to,
            Link::Child(node, side) => nodes[node].children_mut()[side] = to,
        }
    }

    /// The first bin in use from `bin` on.
    #[inline]
    fn next_bin(&self, bin: usize) -> Option<usize> {
        let word = bin / 64;
        let rest = self.used.get(word)? >> (bin % 64);
        if rest != 0 {
            return Some(bin + rest.trailing_zeros() as usize);
        }
        let mut at = (word + 1) / 64;
        let mut words = self.used_words.get(at)? & (u64::MAX << ((word + 1) % 64));
        while words == 0 {
            at += 1;
            words = *self.used_words.get(at)?;
        }
        let word = at * 64 + words.trailing_zeros() as usize;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }
}

#[inline]
fn key(nodes: &Slab, index: Index) -> Key {
    let node = &nodes[index];
    (node.size(), node.address)
}

/// The leftmost (0) or rightmost (1) node of a tree.
#[inline]
fn outermost(nodes: &Slab, mut at: Index, side: usize) -> Index {
    while nodes[at].children()[side] != NONE {
        at = nodes[at].children()[side];
    }
    at
}

/// A treap's rank: the index, mixed, so that shape is as good as random yet the same in every run.
#[inline]
fn priority(index: Index) -> (u32, Index) {
    let mixed = (index ^ (index >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    (mixed ^ (mixed >> 16), index)
}
