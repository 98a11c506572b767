//! Blocks: the pieces that tile a segment. A [`Node`] is the allocator's record of one, in a slab; a [`Block`] is the client's claim
//! on one, and carries the slab index so that nothing is ever looked up.

use super::pool::PoolKind;

/// Index of a node in the slab.
pub(super) type Index = u32;
/// No node.
pub(super) const NONE: Index = Index::MAX;

/// A client's block. It is neither copied nor cloned: whoever holds it is the one to give it back to [`free`](super::Allocator::free).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a block that is dropped stays allocated"]
pub struct Block {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) index: Index,
}

impl Block {
    /// What a request of no bytes gets. It counts nothing.
    pub const NULL: Self = Self { address: 0, bytes: 0, index: NONE };

    /// Where it is; 0 for the null block.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Bytes it counts: its whole size, which is at least what was asked for.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is the block of a request of no bytes.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.index == NONE
    }
}

/// What a node's bytes are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The slab entry is unused.
    Vacant,
    /// A client holds it.
    Allocated,
    /// Cached: in its pool's free set.
    Free,
    /// Address space of an expandable segment without memory: in its pool's unmapped list.
    Unmapped,
}

/// A block as the allocator knows it; one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Node {
    pub(super) address: u64,
    pub(super) size: u64,
    /// What the client asked for; stale once freed, as in PyTorch.
    pub(super) requested: u64,
    /// The pool's count of searches when it was freed: its age, for garbage collection.
    pub(super) freed_at: u64,
    /// Neighbours in the segment, by address. In a vacant entry `next` links the vacant entries.
    pub(super) prev: Index,
    pub(super) next: Index,
    /// Links of the free set.
    pub(super) children: [Index; 2],
    /// Which expandable segment it is part of.
    pub(super) reservation: u32,
    pub(super) state: State,
    pub(super) pool: PoolKind,
}

impl Node {
    /// A block that is all of its segment or reservation.
    pub(super) fn whole(address: u64, size: u64, pool: PoolKind, reservation: u32) -> Self {
        let (prev, next, children) = (NONE, NONE, [NONE; 2]);
        Self { address, size, requested: 0, freed_at: 0, prev, next, children, reservation, state: State::Free, pool }
    }

    /// Whether it shares its segment with other blocks.
    #[inline]
    pub(super) fn is_split(&self) -> bool {
        self.prev != NONE || self.next != NONE
    }
}

/// All nodes, by index. Vacant entries are reused, last vacated first.
#[derive(Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    vacant: Index,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), vacant: NONE }
    }

    #[inline]
    pub(super) fn insert(&mut self, node: Node) -> Index {
        let index = self.vacant;
        if let Some(entry) = self.nodes.get_mut(index as usize) {
            self.vacant = entry.next;
            *entry = node;
            return index;
        }
        self.nodes.push(node);
        Index::try_from(self.nodes.len() - 1).ok().filter(|&i| i != NONE).expect("fewer than 2^32 blocks exist at once")
    }

    #[inline]
    pub(super) fn remove(&mut self, index: Index) {
        let vacant = self.vacant;
        let node = &mut self[index];
        node.state = State::Vacant;
        node.next = vacant;
        self.vacant = index;
    }

    /// Cuts a block down to `size`; the rest, above it, is returned. Neither may be in a pool.
    #[inline]
    pub(super) fn split(&mut self, index: Index, size: u64) -> Index {
        let node = &mut self[index];
        let rest = Node { prev: index, next: node.next, ..Node::whole(node.address + size, node.size - size, node.pool, node.reservation) };
        node.size = size;
        let next = node.next;
        let rest = self.insert(rest);
        self[index].next = rest;
        if next != NONE {
            self[next].prev = rest;
        }
        rest
    }

    /// Joins a neighbour to a block; says how large it was. Neither may be in a pool.
    #[inline]
    pub(super) fn absorb(&mut self, index: Index, neighbour: Index) -> u64 {
        let Node { address, size, prev, next, .. } = self[neighbour];
        let node = &mut self[index];
        node.size += size;
        if address < node.address {
            node.address = address;
            node.prev = prev;
            if prev != NONE {
                self[prev].next = index;
            }
        } else {
            node.next = next;
            if next != NONE {
                self[next].prev = index;
            }
        }
        self.remove(neighbour);
        size
    }

    /// Every index in use, in no meaningful order.
    pub(super) fn indices(&self) -> impl Iterator<Item = Index> {
        (0..).zip(&self.nodes).filter(|(_, n)| n.state != State::Vacant).map(|(i, _)| i)
    }
}

impl std::ops::Index<Index> for Slab {
    type Output = Node;
    #[inline]
    fn index(&self, index: Index) -> &Node {
        &self.nodes[index as usize]
    }
}

impl std::ops::IndexMut<Index> for Slab {
    #[inline]
    fn index_mut(&mut self, index: Index) -> &mut Node {
        &mut self.nodes[index as usize]
    }
}
