//! What holds of the allocator whatever is asked of it and whenever memory runs out: blocks tile their segments, neighbours are
//! merged, statistics equal a recount, and everything goes back to where it came from.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use runner::alloc::{Allocator, AllocatorConfig, Backing, BackingError, Block, BlockState, Failing, Placement, PoolKind, Snapshot};

const MIB: u64 = 1 << 20;
const TOTAL: u64 = 4 << 30;

/// What a backing has out: segments, address space, pages.
#[derive(Default)]
struct Ledger {
    segments: BTreeMap<u64, u64>,
    reserved: BTreeMap<u64, u64>,
    pages: BTreeMap<u64, u64>,
}

/// A backing that holds the allocator to the contract: it gets back exactly what it gave, once.
struct Audited<B> {
    inner: B,
    ledger: Rc<RefCell<Ledger>>,
}

impl<B: Backing> Backing for Audited<B> {
    fn total_memory(&self) -> u64 {
        self.inner.total_memory()
    }

    fn free_memory(&self) -> u64 {
        self.inner.free_memory()
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError> {
        let address = self.inner.allocate(bytes)?;
        assert_eq!(self.ledger.borrow_mut().segments.insert(address, bytes), None);
        Ok(address)
    }

    fn release(&mut self, address: u64, bytes: u64) {
        assert_eq!(self.ledger.borrow_mut().segments.remove(&address), Some(bytes), "released what was not allocated");
        self.inner.release(address, bytes);
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        let address = self.inner.reserve(bytes)?;
        assert_eq!(self.ledger.borrow_mut().reserved.insert(address, bytes), None);
        Ok(address)
    }

    fn unreserve(&mut self, address: u64, bytes: u64) {
        let mut ledger = self.ledger.borrow_mut();
        assert_eq!(ledger.reserved.remove(&address), Some(bytes), "unreserved what was not reserved");
        assert_eq!(ledger.pages.range(address..address + bytes).next(), None, "unreserved with pages mapped");
        self.inner.unreserve(address, bytes);
    }

    fn map(&mut self, address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        self.inner.map(address, pages, page)?;
        let mut ledger = self.ledger.borrow_mut();
        let (base, bytes) = ledger.reserved.range(..=address).next_back().map(|(b, n)| (*b, *n)).unwrap();
        assert!((address - base).is_multiple_of(page) && address + pages * page <= base + bytes, "mapped outside a reservation");
        for at in 0..pages {
            assert_eq!(ledger.pages.insert(address + at * page, page), None, "mapped a page twice");
        }
        Ok(())
    }

    fn unmap(&mut self, address: u64, pages: u64, page: u64) {
        let mut ledger = self.ledger.borrow_mut();
        for at in 0..pages {
            assert_eq!(ledger.pages.remove(&(address + at * page)), Some(page), "unmapped what was not mapped");
        }
        self.inner.unmap(address, pages, page);
    }
}

impl Ledger {
    fn memory(&self) -> u64 {
        self.segments.values().chain(self.pages.values()).sum()
    }

    fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.reserved.is_empty() && self.pages.is_empty()
    }
}

/// A client's block and what it asked for.
struct Live {
    block: Block,
    requested: u64,
}

fn recount(snapshot: &Snapshot, expandable: bool, stats: &runner::alloc::Stats) {
    let mut counts: BTreeMap<(&str, PoolKind), u64> = BTreeMap::new();
    let mut add = |name, pool, by| *counts.entry((name, pool)).or_default() += by;
    for segment in &snapshot.segments {
        let pool = segment.pool;
        add("segment", pool, u64::from(!expandable));
        add("reserved_bytes", pool, segment.bytes);
        for block in &segment.blocks {
            let allocated = block.state == BlockState::Allocated;
            add("allocation", pool, u64::from(allocated));
            add("allocated_bytes", pool, u64::from(allocated) * block.bytes);
            add("requested_bytes", pool, u64::from(allocated) * block.requested);
            let split = !allocated && segment.blocks.len() > 1 && !expandable;
            add("inactive_split", pool, u64::from(split));
            add("inactive_split_bytes", pool, u64::from(split) * block.bytes);
        }
    }
    let current = |name, pool| counts.get(&(name, pool)).copied().unwrap_or(0);
    for (name, array) in stats.arrays() {
        let [all, small_pool, large_pool] = array.named().map(|(_, stat)| stat);
        for stat in [all, small_pool, large_pool] {
            assert!(stat.peak >= stat.current && stat.current == stat.allocated - stat.freed(), "{name}: {stat:?}");
        }
        let counted = name.replace("active", "allocation").replace("allocation_bytes", "allocated_bytes");
        let counted = if name.starts_with("inactive") { name } else { &counted };
        let key =
            ["segment", "reserved_bytes", "allocation", "allocated_bytes", "requested_bytes", "inactive_split", "inactive_split_bytes"];
        let key = key.into_iter().find(|k| k == &counted).unwrap();
        assert_eq!(small_pool.current, current(key, PoolKind::Small), "{name} of the small pool");
        assert_eq!(large_pool.current, current(key, PoolKind::Large), "{name} of the large pool");
        assert_eq!(all.current, small_pool.current + large_pool.current, "{name}");
    }
}

fn check(allocator: &Allocator, live: &[Live], ledger: &Ledger) {
    let snapshot = allocator.snapshot();
    let mut held = BTreeMap::new();
    let mut end = 0;
    for segment in &snapshot.segments {
        assert!(segment.address >= end, "segments overlap");
        let mut at = segment.address;
        for block in &segment.blocks {
            assert_eq!(block.address, at, "blocks do not tile their segment");
            assert!(block.bytes > 0 && block.bytes.is_multiple_of(512));
            at += block.bytes;
            if block.state == BlockState::Allocated {
                held.insert(block.address, (block.bytes, block.requested));
            }
        }
        assert_eq!(at, segment.address + segment.bytes);
        let both_free = |pair: &[runner::alloc::BlockInfo]| pair.iter().all(|b| b.state == BlockState::Inactive);
        assert!(!segment.blocks.windows(2).any(both_free), "free neighbours were not merged");
        end = at;
    }
    let expected: BTreeMap<u64, (u64, u64)> = live.iter().map(|l| (l.block.address(), (l.block.bytes(), l.requested))).collect();
    assert_eq!(held, expected, "blocks were lost, found or moved");
    assert_eq!(expected.len(), live.len(), "two clients have one address");
    assert_eq!(allocator.reserved(), ledger.memory());
    recount(&snapshot, allocator.config().expandable_segments, allocator.stats());
}

#[derive(Debug, Clone)]
enum Op {
    Alloc(u64),
    Free(prop::sample::Index),
    EmptyCache,
    ResetPeaks,
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1..4096u64,
        3 => 1..2 * MIB,
        2 => prop::sample::select(vec![512, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 20 * MIB, 64 * MIB, 2 * MIB]),
        4 => MIB..40 * MIB,
        1 => 40 * MIB..900 * MIB,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => size().prop_map(Op::Alloc),
        17 => any::<prop::sample::Index>().prop_map(Op::Free),
        1 => Just(Op::EmptyCache),
        1 => Just(Op::ResetPeaks),
    ]
}

const SETTINGS: [&str; 8] = [
    "",
    "max_split_size_mb:32",
    "max_split_size_mb:72,max_non_split_rounding_mb:96,large_segment_size_mb:64",
    "garbage_collection_threshold:0.5",
    "garbage_collection_threshold:0.3,max_split_size_mb:64",
    "roundup_power2_divisions:[1:2,16:8,>:4]",
    "expandable_segments:True",
    "expandable_segments:True,large_segment_size_mb:32,roundup_power2_divisions:8",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(
        ops in prop::collection::vec(op(), 1..160),
        settings in prop::sample::select(SETTINGS.to_vec()),
        limit in prop::option::of(64 * MIB..2048 * MIB),
        failing in prop::collection::btree_set(1..60u64, 0..20),
        abandon: bool,
    ) {
        let mut config: AllocatorConfig = settings.parse().unwrap();
        config.memory_limit = limit;
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let backing = Failing::new(Placement::new(TOTAL), move |n| failing.contains(&n));
        let mut allocator = Allocator::new(config, Box::new(Audited { inner: backing, ledger: Rc::clone(&ledger) }));
        let mut live: Vec<Live> = Vec::new();
        let mut ooms = 0;
        for op in ops {
            match op {
                Op::Alloc(requested) => match allocator.malloc(requested) {
                    Ok(block) => {
                        prop_assert!(block.bytes() >= requested);
                        live.push(Live { block, requested });
                    }
                    Err(failure) => {
                        ooms += 1;
                        prop_assert_eq!(failure.allocated, allocator.allocated());
                        prop_assert_eq!(failure.reserved, allocator.reserved());
                    }
                },
                Op::Free(which) => {
                    if !live.is_empty() {
                        allocator.free(live.swap_remove(which.index(live.len())).block);
                    }
                }
                Op::EmptyCache => allocator.empty_cache(),
                Op::ResetPeaks => {
                    allocator.reset_peaks();
                    prop_assert!(allocator.stats().arrays().iter().all(|(_, a)| a.all().peak == a.all().current));
                }
            }
            check(&allocator, &live, &ledger.borrow());
            prop_assert_eq!(allocator.stats().num_ooms, ooms);
            if let Some(limit) = limit {
                // Expandable segments are held to the limit as if a whole segment were asked for, though a request can take more.
                prop_assert!(allocator.reserved() <= limit || allocator.config().expandable_segments);
            }
        }
        if !abandon {
            for live in live.drain(..) {
                allocator.free(live.block);
            }
            allocator.empty_cache();
            prop_assert_eq!(allocator.snapshot().segments, vec![]);
            prop_assert_eq!(ledger.borrow().memory(), 0);
            let arrays = allocator.stats().arrays();
            prop_assert!(arrays.iter().all(|(_, a)| a.all().current == 0 && a.all().allocated == a.all().freed()));
        }
        drop(allocator);
        prop_assert!(ledger.borrow().is_empty(), "the backing did not get everything back");
    }
}

#[test]
fn a_request_for_nothing_counts_nothing() {
    let mut allocator = Allocator::new(AllocatorConfig::default(), Box::new(Placement::new(TOTAL)));
    let before = *allocator.stats();
    let block = allocator.malloc(0).unwrap();
    assert!(block.is_null() && block.bytes() == 0 && block.address() == 0);
    allocator.free(block);
    assert_eq!(*allocator.stats(), before);
}

#[test]
fn a_request_for_an_exabyte_is_refused_uncounted() {
    let mut allocator = Allocator::new(AllocatorConfig::default(), Box::new(Placement::new(TOTAL)));
    for bytes in [1 << 60, u64::MAX] {
        let failure = allocator.malloc(bytes).unwrap_err();
        assert_eq!(failure.to_string(), "CUDA out of memory. Tried to allocate more than 1EB memory.");
    }
    assert_eq!(allocator.stats().num_ooms, 0);
    let failure = allocator.malloc((1 << 60) - 1).unwrap_err();
    assert!(failure.to_string().starts_with("CUDA out of memory. Tried to allocate 1073741824.00 GiB."), "{failure}");
    assert_eq!((allocator.stats().num_ooms, allocator.stats().num_alloc_retries), (1, 1));
}

#[test]
#[should_panic(expected = "not this allocator's")]
fn another_allocators_block_is_not_taken() {
    let new = || Allocator::new(AllocatorConfig::default(), Box::new(Placement::new(TOTAL)));
    let (mut one, mut other) = (new(), new());
    let _kept = one.malloc(1).unwrap();
    let block = one.malloc(1).unwrap();
    let _other = other.malloc(1).unwrap();
    other.free(block);
}
