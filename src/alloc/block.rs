//! Blocks: the pieces that tile a segment. A [`Node`] is the allocator's record of one, in a slab; a [`Block`] is the client's claim
//! on one, and carries the slab index so that nothing is ever looked up.

use super::pool::PoolKind;
use super::size::MIN_BLOCK;

/// Index of a node in the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Index(u32);
/// No node: the index of an entry that is never in use, so that a link can be followed, and its far end be written, before it is
/// known whether there is anything.
pub(super) const NONE: Index = Index(0);

impl Index {
    /// A number that looks random, another one for each index.
    #[inline(always)]
    pub(super) fn mixed(self) -> u32 {
        let mixed = self.0.wrapping_mul(0x85eb_ca6b);
        (mixed ^ (mixed >> 15)).wrapping_mul(0xc2b2_ae35)
    }

    /// This one, or the other if this is none. One of them must be.
    #[inline(always)]
    pub(super) fn or(self, other: Self) -> Self {
        debug_assert!(self == NONE || other == NONE, "at most one of two is there");
        Self(self.0 | other.0)
    }
}

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
        self.index.0 == NONE.0
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
    children: [Index; 2],
}

const STATE: u64 = 0b011;
const POOL: u64 = 0b100;
const TAGS: u64 = MIN_BLOCK - 1;

#[inline(always)]
fn tagged(size: u64, state: State, pool: PoolKind) -> u64 {
    size | state as u64 | (pool as u64 * POOL)
}

impl Node {
    /// What is at [`NONE`].
    const NOBODY: Self = Self { address: 0, tagged_size: State::Vacant as u64, prev: NONE, next: NONE, children: [NONE; 2] };

    /// A block that is all of its segment or reservation, on its way into a pool or to a client.
    pub(super) fn whole(address: u64, size: u64, pool: PoolKind) -> Self {
        Self { address, tagged_size: tagged(size, State::Free, pool), prev: NONE, next: NONE, children: [NONE; 2] }
    }

    #[inline(always)]
    pub(super) fn size(&self) -> u64 {
        self.tagged_size & !TAGS
    }

    #[inline(always)]
    pub(super) fn is(&self, state: State) -> bool {
        self.tagged_size & STATE == state as u64
    }

    /// Whether it is a client's, and this.
    #[inline(always)]
    pub(super) fn is_allocated(&self, address: u64, size: u64, pool: PoolKind) -> bool {
        self.tagged_size == tagged(size, State::Allocated, pool) && self.address == address
    }

    #[inline(always)]
    pub(super) fn set_state(&mut self, state: State) {
        self.tagged_size = self.tagged_size & !STATE | state as u64;
    }

    #[inline(always)]
    pub(super) fn pool(&self) -> PoolKind {
        PoolKind::at(self.tagged_size & POOL != 0)
    }

    /// The children of a free block.
    #[inline(always)]
    pub(super) fn children(&self) -> [Index; 2] {
        self.children
    }

    #[inline(always)]
    pub(super) fn children_mut(&mut self) -> &mut [Index; 2] {
        &mut self.children
    }

    /// What the client of an allocated block asked for. PyTorch remembers it of freed blocks too; nothing asks it there.
    #[inline(always)]
    pub(super) fn requested(&self) -> u64 {
        debug_assert!(self.is(State::Allocated), "only an allocated block remembers what was asked for");
        let [low, high] = self.children;
        u64::from(low.0) | u64::from(high.0) << 32
    }

    /// Makes it a client's that asked for `requested`.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // the halves
    pub(super) fn allocate(&mut self, requested: u64) {
        self.set_state(State::Allocated);
        self.children = [Index(requested as u32), Index((requested >> 32) as u32)];
    }

    /// Whether it shares its segment with other blocks.
    #[inline(always)]
    pub(super) fn is_split(&self) -> bool {
        self.prev.0 | self.next.0 != NONE.0
    }
}

/// All nodes, by index. Vacant entries are reused, last vacated first.
#[derive(Debug)]
pub(super) struct Slab {
    pub(super) entries: Vec<Node>,
    /// Of each free block its pool's count of searches when it was freed; only while garbage is collected.
    freed_at: Vec<u64>,
    vacant: Index,
}

impl Slab {
    pub(super) fn new() -> Self {
        Self { entries: vec![Node::NOBODY], freed_at: Vec::new(), vacant: NONE }
    }

    pub(super) fn freed_at(&self, index: Index) -> u64 {
        self.freed_at.get(index.0 as usize).copied().unwrap_or(0)
    }

    #[cold]
    pub(super) fn set_freed_at(&mut self, index: Index, searches: u64) {
        self.freed_at.resize(self.entries.len(), 0);
        self.freed_at[index.0 as usize] = searches;
    }

    /// The client's claim on a block.
    #[inline(always)]
    pub(super) fn block(&self, index: Index) -> Block {
        let node = &self[index];
        Block { address: node.address, bytes: node.size(), index }
    }

    pub(super) fn insert(&mut self, node: Node) -> Index {
        let index = self.claim();
        self[index] = node;
        index
    }

    /// An entry to be overwritten.
    #[inline(always)]
    fn claim(&mut self) -> Index {
        let index = self.vacant;
        if index == NONE {
            return self.grow();
        }
        self.vacant = self[index].next;
        index
    }

    #[cold]
    fn grow(&mut self) -> Index {
        self.entries.push(Node::NOBODY);
        Index(u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 blocks exist at once"))
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, index: Index) {
        let node = &mut self.entries[..][index];
        node.set_state(State::Vacant);
        node.next = self.vacant;
        self.vacant = index;
    }

    /// Cuts a block down to `size`; the rest, above it, is returned. Neither may be in a pool.
    #[inline(always)]
    pub(super) fn split(&mut self, index: Index, size: u64) -> Index {
        let rest = self.claim();
        let nodes = &mut self.entries[..];
        let node = &mut nodes[index];
        let (address, whole, next) = (node.address, node.tagged_size, node.next);
        node.tagged_size = size | whole & TAGS;
        node.next = rest;
        nodes[next].prev = rest;
        // Field by field: a node put together elsewhere and copied here would be read back before it has arrived.
        let above = &mut nodes[rest];
        above.address = address + size;
        above.tagged_size = whole - size;
        above.prev = index;
        above.next = next;
        rest
    }

    /// Joins the block below to a block; says how large it was. Neither may be in a pool.
    #[inline(always)]
    pub(super) fn absorb_prev(&mut self, index: Index, below: Index) -> u64 {
        let nodes = &mut self.entries[..];
        let (address, size, prev) = (nodes[below].address, nodes[below].size(), nodes[below].prev);
        let node = &mut nodes[index];
        node.tagged_size += size;
        node.address = address;
        node.prev = prev;
        nodes[prev].next = index;
        self.remove(below);
        size
    }

    /// Joins the block above to a block; says how large it was. Neither may be in a pool.
    #[inline(always)]
    pub(super) fn absorb_next(&mut self, index: Index, above: Index) -> u64 {
        let nodes = &mut self.entries[..];
        let (size, next) = (nodes[above].size(), nodes[above].next);
        let node = &mut nodes[index];
        node.tagged_size += size;
        node.next = next;
        nodes[next].prev = index;
        self.remove(above);
        size
    }

    /// Every index in use, in no meaningful order.
    pub(super) fn indices(&self) -> impl Iterator<Item = Index> {
        (0..).map(Index).zip(&self.entries).filter(|(_, n)| !n.is(State::Vacant)).map(|(i, _)| i)
    }
}

impl std::ops::Index<Index> for [Node] {
    type Output = Node;
    #[inline(always)]
    fn index(&self, index: Index) -> &Node {
        &self[index.0 as usize]
    }
}

impl std::ops::IndexMut<Index> for [Node] {
    #[inline(always)]
    fn index_mut(&mut self, index: Index) -> &mut Node {
        &mut self[index.0 as usize]
    }
}

impl std::ops::Index<Index> for Slab {
    type Output = Node;
    #[inline(always)]
    fn index(&self, index: Index) -> &Node {
        &self.entries[..][index]
    }
}

impl std::ops::IndexMut<Index> for Slab {
    #[inline(always)]
    fn index_mut(&mut self, index: Index) -> &mut Node {
        &mut self.entries[..][index]
    }
}
