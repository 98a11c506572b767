//! The free blocks of a pool in order of (size, address), which is the whole of "best fit, lowest address among equals".
//!
//! Sizes fall into bins: exact up to 256 KiB, 256 to a power of two above. A bitmap finds the next bin in use; within a bin a treap,
//! linked through the nodes themselves, keeps the order. Bins are monotone in size, so bin by bin is in order throughout. Most bins
//! hold a handful of blocks, so most operations touch one or two nodes; equal sizes by the thousand still cost a logarithm.
//!
//! A root without a left child is its bin's first block and may stand, whatever its rank, above what is a treap in itself. So the
//! first block is mostly found at once, and a block that comes back to where it was taken from, as most do, goes there at once.

use super::block::{Index, NONE, Node};
use super::size::MIN_BLOCK;

/// Bits of a size, below its leading one, that choose its bin.
const MANTISSA: u32 = 8;
const PER_OCTAVE: usize = 1 << MANTISSA;
/// Sizes in units of 512 bytes have up to 55 bits. Those below 2^(MANTISSA + 1) have bins of their own, two octaves' worth of them.
const BINS: usize = PER_OCTAVE * (55 - MANTISSA as usize + 1);
/// The bitmap of bins in use, and the bitmap of its words that are not 0.
const WORDS: usize = BINS.div_ceil(64);
const SUMMARY: usize = WORDS.div_ceil(64);

/// The bin of a block of `size`.
#[inline(always)]
fn bin_of(size: u64) -> usize {
    let units = size / MIN_BLOCK;
    let shift = (units | PER_OCTAVE as u64).ilog2() - MANTISSA;
    // The leading bit stays in the quotient, so each octave starts where the one below it ended.
    shift as usize * PER_OCTAVE + (units >> shift) as usize
}

/// A set of free blocks. It owns their `children` links in the slab; sizes and addresses must not change while they are in it.
#[derive(Debug)]
pub(super) struct FreeSet {
    /// As many as the largest block so far has made it.
    roots: Vec<Index>,
    used: Box<[u64; WORDS]>,
    used_words: [u64; SUMMARY],
    /// A bin and what all blocks in it lie above: the key of the last block that was taken. No block is in bin 0.
    above: (usize, Key),
}

/// Where a block is in the set, until the set next changes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) index: Index,
    bin: usize,
    /// In its bin's tree; none of the root.
    parent: Index,
    /// Whether it is known for its bin's first.
    first: bool,
}

impl FreeSet {
    pub(super) fn new() -> Self {
        Self { roots: Vec::new(), used: Box::new([0; WORDS]), used_words: [0; SUMMARY], above: (0, Key { size: 0, address: 0 }) }
    }

    /// The first block of at least `size`.
    #[inline(always)]
    pub(super) fn best_fit(&self, nodes: &[Node], size: u64) -> Option<Place> {
        let bin = bin_of(size);
        let place = self.first_of(nodes, self.next_bin(bin)?);
        if nodes[place.index].size() < size { self.from(nodes, Key { size, address: 0 }) } else { Some(place) }
    }

    /// The first block at `from` or after, where the bin of `from` is in use. Seldom needed, but inlined: where one of two places comes
    /// by way of memory, so does the other, and is waited for.
    #[inline(always)]
    fn from(&self, nodes: &[Node], from: Key) -> Option<Place> {
        let bin = bin_of(from.size);
        self.first_in(nodes, bin, from).or_else(|| Some(self.first_of(nodes, self.next_bin(bin + 1)?)))
    }

    /// The block after this one, in order.
    pub(super) fn after(&self, nodes: &[Node], index: Index) -> Option<Place> {
        let Key { size, address } = Key::of(&nodes[index]);
        self.from(nodes, Key { size, address: address + 1 })
    }

    /// The first block of a bin in use.
    #[inline(always)]
    fn first_of(&self, nodes: &[Node], bin: usize) -> Place {
        let mut place = Place { index: self.roots[bin], bin, parent: NONE, first: true };
        loop {
            let [left, _] = nodes[place.index].children();
            if left == NONE {
                return place;
            }
            place = Place { index: left, parent: place.index, ..place };
        }
    }

    /// The first block of a bin in use that is at `from` or after.
    #[inline(always)]
    fn first_in(&self, nodes: &[Node], bin: usize, from: Key) -> Option<Place> {
        let (mut found, mut parent, mut at) = (None, NONE, self.roots[bin]);
        while at != NONE {
            let less = Key::of(&nodes[at]) < from;
            if !less {
                found = Some(Place { index: at, bin, parent, first: false });
            }
            parent = at;
            at = nodes[at].children()[usize::from(less)];
        }
        found
    }

    /// The last block before size `below`.
    pub(super) fn last_below(&self, nodes: &[Node], below: u64) -> Option<Index> {
        let bin = bin_of(below);
        let (mut found, mut at) = (NONE, self.roots.get(bin).copied().unwrap_or(NONE));
        while at != NONE {
            let less = nodes[at].size() < below;
            if less {
                found = at;
            }
            at = nodes[at].children()[usize::from(less)];
        }
        if found == NONE {
            found = *self.roots[..bin.min(self.roots.len())].iter().rfind(|&&root| root != NONE)?;
            while nodes[found].children()[1] != NONE {
                found = nodes[found].children()[1];
            }
        }
        Some(found)
    }

    /// All blocks, in order.
    pub(super) fn to_vec(&self, nodes: &[Node]) -> Vec<Index> {
        let first = self.best_fit(nodes, 0);
        std::iter::successors(first, |place| self.after(nodes, place.index)).map(|place| place.index).collect()
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, nodes: &mut [Node], index: Index) {
        let new = Key::of(&nodes[index]);
        let bin = bin_of(new.size);
        if bin >= self.roots.len() {
            self.reach(bin);
        }
        // Whatever happens to it, where it goes is no longer below all of its bin.
        let before_all = bin == self.above.0 && new <= self.above.1;
        if before_all {
            self.above.0 = 0;
        }
        let slot = &mut self.roots[bin];
        let root = *slot;
        let [left, right] = nodes[root].children();
        *slot = if root == NONE {
            self.used[bin / 64] |= 1 << (bin % 64);
            self.used_words[bin / 4096] |= 1 << (bin / 64 % 64);
            *nodes[index].children_mut() = [NONE; 2];
            index
        } else if left == NONE {
            let (first, second) = if new < Key::of(&nodes[root]) { (index, root) } else { (root, index) };
            let rest = insert_below(nodes, right, second);
            *nodes[first].children_mut() = [NONE, rest];
            first
        } else if before_all {
            *nodes[index].children_mut() = [NONE, root];
            index
        } else {
            insert_below(nodes, root, index)
        };
    }

    #[cold]
    fn reach(&mut self, bin: usize) {
        self.roots.resize(bin + 1, NONE);
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, nodes: &mut [Node], index: Index) {
        let gone = Key::of(&nodes[index]);
        let bin = bin_of(gone.size);
        let (mut parent, mut at) = (NONE, self.roots[bin]);
        while at != index {
            parent = at;
            at = nodes[at].children()[usize::from(Key::of(&nodes[at]) < gone)];
        }
        self.remove_at(nodes, Place { index, bin, parent, first: false });
    }

    /// Removes a block where it was just found, for a client.
    #[inline(always)]
    pub(super) fn take(&mut self, nodes: &mut [Node], place: Place) {
        if place.first {
            self.above = (place.bin, Key::of(&nodes[place.index]));
        }
        self.remove_at(nodes, place);
    }

    #[inline(always)]
    fn remove_at(&mut self, nodes: &mut [Node], Place { index, bin, parent, .. }: Place) {
        let node = &nodes[index];
        let [left, right] = node.children();
        let heir = if left == NONE || right == NONE { left.or(right) } else { knit(nodes, left, right) };
        if parent != NONE {
            let [left, right] = nodes[parent].children_mut();
            *(if *left == index { left } else { right }) = heir;
            return;
        }
        self.roots[bin] = heir;
        let word = &mut self.used[bin / 64];
        *word &= !(u64::from(heir == NONE) << (bin % 64));
        self.used_words[bin / 4096] &= !(u64::from(*word == 0) << (bin / 64 % 64));
    }

    /// The first bin in use from `bin` on.
    #[inline(always)]
    fn next_bin(&self, bin: usize) -> Option<usize> {
        let rest = self.used.get(bin / 64)? >> (bin % 64);
        if rest != 0 { Some(bin + rest.trailing_zeros() as usize) } else { self.next_word(bin / 64 + 1) }
    }

    /// The first bin in use from a word on.
    fn next_word(&self, word: usize) -> Option<usize> {
        let mut at = word / 64;
        let mut words = self.used_words.get(at)? & (u64::MAX << (word % 64));
        while words == 0 {
            at += 1;
            words = *self.used_words.get(at)?;
        }
        let word = at * 64 + words.trailing_zeros() as usize;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }
}

/// Inserts into the treap under `root`; gives the new root.
fn insert_below(nodes: &mut [Node], root: Index, index: Index) -> Index {
    let new = Key::of(&nodes[index]);
    let rank = index.mixed();
    let (mut parent, mut side, mut at) = (NONE, 0, root);
    while at != NONE && at.mixed() > rank {
        (parent, side) = (at, usize::from(Key::of(&nodes[at]) < new));
        at = nodes[at].children()[side];
    }
    // What was there is torn along the new key: lesser nodes under the left child, greater under the right.
    let mut tears = [(index, 0), (index, 1)];
    while at != NONE {
        let lesser = usize::from(Key::of(&nodes[at]) < new);
        let (above, side) = tears[1 - lesser];
        nodes[above].children_mut()[side] = at;
        tears[1 - lesser] = (at, lesser);
        at = nodes[at].children()[lesser];
    }
    for (above, side) in tears {
        nodes[above].children_mut()[side] = NONE;
    }
    if parent == NONE {
        return index;
    }
    nodes[parent].children_mut()[side] = index;
    root
}

/// Knits two trees, all of one before all of the other, into one; gives its root.
fn knit(nodes: &mut [Node], mut left: Index, mut right: Index) -> Index {
    let (mut root, mut parent, mut side) = (NONE, NONE, 0);
    while left != NONE || right != NONE {
        let from_left = right == NONE || left != NONE && left.mixed() > right.mixed();
        let at = if from_left { left } else { right };
        if parent == NONE {
            root = at;
        } else {
            nodes[parent].children_mut()[side] = at;
        }
        if left == NONE || right == NONE {
            break;
        }
        (parent, side) = (at, usize::from(from_left));
        let next = nodes[at].children()[side];
        *(if from_left { &mut left } else { &mut right }) = next;
    }
    root
}

/// What blocks are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    size: u64,
    address: u64,
}

impl Key {
    #[inline(always)]
    fn of(node: &Node) -> Self {
        Self { size: node.size(), address: node.address }
    }
}
