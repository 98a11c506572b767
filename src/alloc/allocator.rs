//! The allocator: `malloc`, `free`, and the order in which fallbacks are tried. Invariants: blocks tile their segments; no two
//! neighbours are both free; a block is in its pool's free set exactly while nobody holds it.

use super::backing::Backing;
use super::block::{Block, Index, NONE, Node, Slab, State};
use super::config::AllocatorConfig;
use super::event::{Action, Event, Listener};
use super::expandable::Reservation;
use super::oom::OutOfMemory;
use super::pool::{Pool, PoolKind};
use super::size::{EXABYTE, MIN_BLOCK, round_up, segment_for};
use super::stats::Stats;
use crate::meta::bytes::MIB;

/// PyTorch's caching allocator over a [`Backing`]. Dropping it gives every segment back.
pub struct Allocator {
    pub(super) config: AllocatorConfig,
    /// [`AllocatorConfig::garbage_threshold`], which does not change.
    pub(super) garbage_threshold: Option<u64>,
    /// The least that is worth splitting off, by [`PoolKind`].
    least_rest: [u64; 2],
    pub(super) backing: Box<dyn Backing>,
    pub(super) nodes: Slab,
    /// By [`PoolKind`].
    pub(super) pools: [Pool; 2],
    pub(super) reservations: Vec<Reservation>,
    pub(super) stats: Stats,
    pub(super) listener: Option<Listener>,
}

impl Allocator {
    /// An allocator that holds nothing yet.
    #[must_use]
    pub fn new(mut config: AllocatorConfig, backing: Box<dyn Backing>) -> Self {
        config.memory_limit = config.limit(backing.total_memory());
        let max_split_size = config.max_split_size().map_or(-1, |s| i64::try_from(s).unwrap_or(i64::MAX));
        Self {
            garbage_threshold: config.garbage_threshold(),
            least_rest: [MIN_BLOCK, if config.expandable_segments { MIN_BLOCK } else { MIB + 1 }],
            config,
            backing,
            nodes: Slab::new(),
            pools: [Pool::new(), Pool::new()],
            reservations: Vec::new(),
            stats: Stats { max_split_size, ..Stats::default() },
            listener: None,
        }
    }

    /// Tells `listener` everything from now on.
    pub fn listen(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// A block of at least `bytes`; the null block for none.
    ///
    /// # Errors
    /// [`OutOfMemory`], once everything that could be given back was.
    #[inline]
    pub fn malloc(&mut self, bytes: u64) -> Result<Block, OutOfMemory> {
        if bytes == 0 {
            return Ok(Block::NULL);
        }
        // An index fits a register; a block and an error do not, and are made where this is inlined.
        match self.find(bytes) {
            NONE => Err(self.run_out(bytes)),
            index => Ok(self.nodes.block(index)),
        }
    }

    /// Gives a block back; the null block is nothing to give.
    ///
    /// # Panics
    /// The block is another allocator's.
    #[inline]
    #[allow(clippy::needless_pass_by_value)] // a block that was freed must be gone
    pub fn free(&mut self, block: Block) {
        if !block.is_null() {
            self.take_back(block.index, block.address, block.bytes);
        }
    }

    /// Gives back everything cached, as `torch.cuda.empty_cache()`.
    pub fn empty_cache(&mut self) {
        self.release_cached();
    }

    /// Every peak falls to what is current, as `torch.cuda.reset_peak_memory_stats()`.
    pub fn reset_peaks(&mut self) {
        self.stats.reset_peaks();
    }

    /// All statistics.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// `torch.cuda.memory_allocated()`.
    #[must_use]
    #[inline]
    #[allow(clippy::misnamed_getters)] // the field of that name counts all that ever was
    pub fn allocated(&self) -> u64 {
        self.stats.allocated_bytes.all().current
    }

    /// `torch.cuda.max_memory_allocated()`.
    #[must_use]
    #[inline]
    pub fn peak(&self) -> u64 {
        self.stats.allocated_bytes.all().peak
    }

    /// `torch.cuda.memory_reserved()`.
    #[must_use]
    #[inline]
    pub fn reserved(&self) -> u64 {
        self.stats.reserved_bytes.all().current
    }

    /// The settings it runs under.
    #[must_use]
    pub fn config(&self) -> &AllocatorConfig {
        &self.config
    }

    /// Finds room for `bytes` and hands it out; `NONE` once everything that could be given back was.
    fn find(&mut self, bytes: u64) -> Index {
        if bytes >= EXABYTE {
            return NONE;
        }
        let size = round_up(bytes, &self.config.roundup_power2_divisions);
        let kind = PoolKind::of(size);
        let Some(index) = self.take_cached(kind, size).or_else(|| self.take_new(kind, size)) else {
            return NONE;
        };
        self.hand_out(kind, index, bytes, size);
        index
    }

    fn take_back(&mut self, index: Index, address: u64, size: u64) {
        let node = &self.nodes[index];
        // A block's size tells its pool, and the claim tells the size before the node has been fetched.
        let kind = PoolKind::of(size);
        assert!(node.is_allocated(address, size, kind), "a freed block was not this allocator's");
        let requested = node.requested();

        self.stats.allocation.decrease(kind, 1);
        self.stats.allocated_bytes.decrease(kind, size);
        self.stats.requested_bytes.decrease(kind, requested);
        if size >= self.config.max_split_size {
            self.stats.oversize_allocations.decrease(1);
        }
        let (below, above) = self.join_neighbours(index, kind, State::Free);
        if !self.config.expandable_segments {
            // PyTorch nets the change before it counts it: the cumulative figures depend on that.
            let joined = i64::from(below > 0) + i64::from(above > 0);
            let node = &self.nodes[index];
            let (count, bytes) = if node.is_split() { (1 - joined, signed(size)) } else { (-joined, -signed(below + above)) };
            self.stats.inactive_split.shift(kind, count);
            self.stats.inactive_split_bytes.shift(kind, bytes);
        }
        let (pool, nodes) = self.pool(kind);
        pool.put_free(nodes, index);
        self.tell(Action::Free, requested, address, size);
    }

    /// Takes the best cached block out of its pool, if one will do.
    #[inline(always)]
    fn take_cached(&mut self, kind: PoolKind, size: u64) -> Option<Index> {
        let (pool, nodes) = (&mut self.pools[kind as usize], &mut self.nodes);
        if self.garbage_threshold.is_some() {
            pool.searches += 1;
        }
        let mut place = pool.free.best_fit(&nodes.entries, size)?;
        if self.config.expandable_segments {
            place = pool.least_expandable(nodes, place);
        }
        let found = nodes[place.index].size();
        // A block too large to be split is kept for requests as large, and then only if little of it would be wasted.
        let max_split = self.config.max_split_size;
        if found >= max_split && (size < max_split || found >= size.saturating_add(self.config.max_non_split_rounding())) {
            return None;
        }
        pool.free.take(&mut nodes.entries, place);
        Some(place.index)
    }

    /// A block of at least `size` in new memory, giving cached memory back for it if it must. In no pool.
    #[cold]
    fn take_new(&mut self, kind: PoolKind, size: u64) -> Option<Index> {
        self.collect_garbage();
        if let Some(index) = self.grow(kind, size) {
            return Some(index);
        }
        if self.release_oversize(kind, size)
            && let Some(index) = self.grow(kind, size)
        {
            return Some(index);
        }
        self.release_cached();
        self.stats.num_alloc_retries += 1;
        self.grow(kind, size)
    }

    /// Asks the backing for memory, within the limit.
    fn grow(&mut self, kind: PoolKind, size: u64) -> Option<Index> {
        let bytes = segment_for(size, &self.config);
        if self.config.memory_limit.is_some_and(|limit| self.reserved().saturating_add(bytes) > limit) {
            return None;
        }
        if self.config.expandable_segments {
            return self.expand(kind, size);
        }
        let address = self.backing.allocate(bytes).ok()?;
        self.stats.num_device_alloc += 1;
        self.stats.segment.increase(kind, 1);
        self.stats.reserved_bytes.increase(kind, bytes);
        if bytes >= self.config.max_split_size {
            self.stats.oversize_segments.increase(1);
        }
        self.tell(Action::SegmentAlloc, bytes, address, bytes);
        Some(self.nodes.insert(Node::whole(address, bytes, kind)))
    }

    /// Gives a block that is in no pool to a client, splitting off what is not needed.
    #[inline(always)]
    fn hand_out(&mut self, kind: PoolKind, index: Index, requested: u64, size: u64) {
        let node = &self.nodes[index];
        debug_assert_eq!(kind, node.pool(), "a block's size tells its pool");
        let expandable = self.config.expandable_segments;
        let was_split = node.is_split();
        let remaining = node.size() - size;
        let split = remaining >= self.least_rest[kind as usize] && (size < self.config.max_split_size || expandable);
        if split {
            let (pool, nodes) = self.pool(kind);
            let rest = nodes.split(index, size);
            pool.put_free(nodes, rest);
        }
        if !expandable {
            let stats = &mut self.stats;
            if was_split {
                stats.inactive_split.decrease(kind, u64::from(!split));
                stats.inactive_split_bytes.decrease(kind, if split { size } else { size + remaining });
            } else if split {
                stats.inactive_split.increase(kind, 1);
                stats.inactive_split_bytes.increase(kind, remaining);
            }
        }
        let node = &mut self.nodes[index];
        node.allocate(requested);
        let (address, bytes) = (node.address, node.size());
        self.stats.allocation.increase(kind, 1);
        self.stats.allocated_bytes.increase(kind, bytes);
        self.stats.requested_bytes.increase(kind, requested);
        if bytes >= self.config.max_split_size {
            self.stats.oversize_allocations.increase(1);
        }
        self.tell(Action::Alloc, requested, address, bytes);
    }

    /// Joins those neighbours to a block of a pool, but not in it, that are in `state` (free or unmapped); says how much came from below
    /// and above.
    #[inline(always)]
    pub(super) fn join_neighbours(&mut self, index: Index, kind: PoolKind, state: State) -> (u64, u64) {
        let node = &self.nodes[index];
        let (prev, next) = (node.prev, node.next);
        let (pool, nodes) = self.pool(kind);
        let (mut below, mut above) = (0, 0);
        // Both are fetched before either is dealt with.
        let (joins_prev, joins_next) = (nodes[prev].is(state), nodes[next].is(state));
        if joins_prev {
            pool.take(nodes, prev);
            below = nodes.absorb_prev(index, prev);
        }
        if joins_next {
            pool.take(nodes, next);
            above = nodes.absorb_next(index, next);
        }
        (below, above)
    }

    /// A pool, and the nodes beside it.
    #[inline]
    pub(super) fn pool(&mut self, kind: PoolKind) -> (&mut Pool, &mut Slab) {
        (&mut self.pools[kind as usize], &mut self.nodes)
    }

    #[inline]
    pub(super) fn tell(&mut self, action: Action, bytes: u64, address: u64, block: u64) {
        if let Some(listener) = &mut self.listener {
            listener(Event { action, bytes, address, block });
        }
    }

    /// Why there is no room for `requested` bytes. What is absurd is refused before anything is tried or counted.
    #[cold]
    fn run_out(&mut self, requested: u64) -> OutOfMemory {
        let size = (requested < EXABYTE).then(|| round_up(requested, &self.config.roundup_power2_divisions));
        if let Some(size) = size {
            self.stats.num_ooms += 1;
            self.tell(Action::Oom, size, 0, size);
        }
        OutOfMemory {
            requested,
            segment: size.map(|size| segment_for(size, &self.config)),
            total: self.backing.total_memory(),
            free: self.backing.free_memory(),
            process: self.backing.process_memory(),
            limit: self.config.memory_limit,
            allocated: self.allocated(),
            reserved: self.reserved(),
            machine_is_full: self.backing.machine_is_full(),
        }
    }
}

/// A size as a difference.
#[allow(clippy::cast_possible_wrap)] // sizes stay below 2^60
fn signed(bytes: u64) -> i64 {
    bytes as i64
}
