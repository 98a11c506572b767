//! Blocks: the pieces that tile a segment. A [`Node`] is the allocator's record of one, in a slab; a [`Block`] is the client's claim
//! on one, and carries the slab index so that nothing is ever looked up.

use super::pool::PoolKind;
use super::size::MIN_BLOCK;

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

/// A block as the allocator knows it, in half a cache line: with thousands of blocks live, time goes into fetching these.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Node {
    pub(super) address: u64,
    /// The size, and in its low nine bits, which are 0 in any multiple of 512, the state and the pool.
    tagged_size: u64,
    /// Neighbours in the segment, by address. In a vacant entry `next` links the vacant entries.
    pub(super) prev: Index,
    pub(super) next: Index,
    /// Of a free block, its two children in the free set; of an allocated one, the halves of what its client asked for.
    links: [u32; 2],
}

const STATE: u64 = 0b011;
const POOL: u64 = 0b100;
const TAGS: u64 = MIN_BLOCK - 1;

impl Node {
    /// A block that is all of its segment or reservation, on its way into a pool or to a client.
    pub(super) fn whole(address: u64, size: u64, pool: PoolKind) -> Self {
        let tags = State::Free as u64 | if pool == PoolKind::Large { POOL } else { 0 };
        Self { address, tagged_size: size | tags, prev: NONE, next: NONE, links: [NONE; 2] }
    }

    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.tagged_size & !TAGS
    }

    #[inline]
    pub(super) fn is(&self, state: State) -> bool {
        self.tagged_size & STATE == state as u64
    }

    #[inline]
    pub(super) fn set_state(&mut self, state: State) {
        self.tagged_size = self.tagged_size & !STATE | state as u64;
    }

    #[inline]
    pub(super) fn pool(&self) -> PoolKind {
        if self.tagged_size & POOL == 0 { PoolKind::Small } else { PoolKind::Large }
    }

    /// The children of a free block.
    #[inline]
    pub(super) fn children(&self) -> [Index; 2] {
        self.links
    }

    #[inline]
    pub(super) fn children_mut(&mut self) -> &mut [Index; 2] {
        &mut self.links
    }

    /// What the client of an allocated block asked for. PyTorch remembers it of freed blocks too; nothing asks it there.
    #[inline]
    pub(super) fn requested(&self) -> u64 {
        debug_assert!(self.is(State::Allocated), "only an allocated block remembers what was asked for");
        u64::from(self.links[0]) | u64::from(self.links[1]) << 32
    }

    /// Makes it a client's that asked for `requested`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the halves
    pub(super) fn allocate(&mut self, requested: u64) {
        self.set_state(State::Allocated);
        self.links = [requested as u32, (requested >> 32) as u32];
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
    /// Of each free block its pool's count of searches when it was freed; only while garbage is collected.
    freed_at: Vec<u64>,
    vacant: Index,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), freed_at: Vec::new(), vacant: NONE }
    }

    pub(super) fn freed_at(&self, index: Index) -> u64 {
        self.freed_at.get(index as usize).copied().unwrap_or(0)
    }

    #[cold]
    pub(super) fn set_freed_at(&mut self, index: Index, searches: u64) {
        self.freed_at.resize(self.nodes.len(), 0);
        self.freed_at[index as usize] = searches;
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
        node.set_state(State::Vacant);
        node.next = vacant;
        self.vacant = index;
    }

    /// Cuts a block down to `size`; the rest, above it, is returned. Neither may be in a pool.
    #[inline]
    pub(super) fn split(&mut self, index: Index, size: u64) -> Index {
        let node = &mut self[index];
        let rest =
            Node { address: node.address + size, tagged_size: node.tagged_size - size, prev: index, next: node.next, links: [NONE; 2] };
        node.tagged_size = size | node.tagged_size & TAGS;
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
        let Node { address, prev, next, .. } = self[neighbour];
        let size = self[neighbour].size();
        let node = &mut self[index];
        node.tagged_size += size;
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
        (0..).zip(&self.nodes).filter(|(_, n)| !n.is(State::Vacant)).map(|(i, _)| i)
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
