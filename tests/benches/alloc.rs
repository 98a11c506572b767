//! How fast the allocator is: an allocation and a free among many live blocks, and whole traces.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use runner::alloc::{Allocator, AllocatorConfig, Block, Op, Placement, Trace, replay};

/// Small enough that nothing runs out, large enough for ten thousand blocks.
const TOTAL: u64 = 1 << 42;

/// A fixed sequence of numbers that look random (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A request: any magnitude from bytes to 32 MiB is as likely as any other.
    fn size(&mut self) -> u64 {
        let magnitude = 1 << (5 + self.below(21));
        magnitude + self.below(magnitude)
    }
}

/// Sizes drawn beforehand, and how many: a power of two, so that going round costs no division. A division takes as long as a tenth
/// of what is measured here.
type Sizes = [u64; 1 << 12];

/// An allocator with `live` blocks, after enough came and went that the pools are warm and fragmented.
fn warm(live: usize) -> (Allocator, Vec<Block>, Box<Sizes>) {
    let mut numbers = Numbers(live as u64);
    let mut allocator = Allocator::new(AllocatorConfig::default(), Box::new(Placement::new(TOTAL)));
    let mut blocks = Vec::with_capacity(live);
    for _ in 0..live {
        blocks.push(allocator.malloc(numbers.size()).expect("there is room"));
    }
    for _ in 0..20 * live {
        let at = usize::try_from(numbers.below(live as u64)).expect("an index");
        let new = allocator.malloc(numbers.size()).expect("there is room");
        allocator.free(std::mem::replace(&mut blocks[at], new));
    }
    (allocator, blocks, Box::new(std::array::from_fn(|_| numbers.size())))
}

fn pairs(c: &mut Criterion) {
    let mut group = c.benchmark_group("alloc_free");
    for live in [1_000, 10_000] {
        let (mut allocator, _blocks, sizes) = warm(live);
        let mut turn = 0;
        group.bench_function(BenchmarkId::new("at_once", live), |b| {
            b.iter(|| {
                turn = (turn + 1) % sizes.len();
                let block = allocator.malloc(black_box(sizes[turn])).expect("there is room");
                allocator.free(black_box(block));
            });
        });
        let (mut allocator, mut blocks, sizes) = warm(live);
        let mut turn = 0;
        let mut victim = 0;
        group.bench_function(BenchmarkId::new("replace", live), |b| {
            b.iter(|| {
                turn = (turn + 1) % sizes.len();
                // Neighbours here are no neighbours in the pool: the warming up shuffled them.
                victim = if victim + 1 == live { 0 } else { victim + 1 };
                let new = allocator.malloc(black_box(sizes[turn])).expect("there is room");
                allocator.free(std::mem::replace(&mut blocks[victim], new));
            });
        });
    }
}

/// A trace that keeps about `slots` ÷ 2 blocks.
fn trace(length: usize, slots: u32) -> Trace {
    let mut numbers = Numbers(1);
    let mut full = vec![false; slots as usize];
    let op = || {
        let slot = u32::try_from(numbers.below(slots.into())).expect("below a u32");
        let full = &mut full[slot as usize];
        *full = !*full;
        if *full { Op::Alloc { slot, bytes: numbers.size() } } else { Op::Free { slot } }
    };
    Trace { ops: std::iter::repeat_with(op).take(length).collect(), slots: slots as usize }
}

fn replays(c: &mut Criterion) {
    let mut group = c.benchmark_group("replay");
    for slots in [2_000, 20_000] {
        let trace = trace(500_000, slots);
        group.throughput(Throughput::Elements(trace.ops.len() as u64)).sample_size(20);
        group.bench_function(BenchmarkId::from_parameter(slots / 2), |b| {
            b.iter(|| {
                let mut allocator = Allocator::new(AllocatorConfig::default(), Box::new(Placement::new(TOTAL)));
                replay(&trace, &mut allocator, |_, allocator| {
                    black_box(allocator.stats());
                })
            });
        });
    }
}

criterion_group!(benches, pairs, replays);
criterion_main!(benches);
