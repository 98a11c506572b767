//! Which free block is taken: the smallest of its pool that holds the request, the lowest address among equals.

use runner::alloc::{Allocator, AllocatorConfig, Block, BlockState, Placement, PoolKind};

/// Sizes that meet in bins of the free blocks' index, at bins' edges, and by the hundred in one, in units of 512 bytes.
const SIZES: [u64; 16] = [1, 2, 3, 255, 256, 257, 511, 512, 513, 514, 2048, 2049, 4096, 4100, 40_000, 40_001];

#[test]
fn the_smallest_free_block_that_holds_it_is_taken() {
    let mut allocator = Allocator::new(AllocatorConfig::default(), Box::new(Placement::new(1 << 50)));
    let mut live: Vec<Block> = Vec::new();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut taken, mut most) = (0, 0);
    for step in 0..6_000 {
        // Grows to hundreds, shrinks to nothing, and so on.
        let growing = step / 1500 % 2 == 0;
        if live.is_empty() || random(10) < if growing { 7 } else { 2 } {
            let size = SIZES[random(SIZES.len())] * 512;
            let pool = if size <= 1 << 20 { PoolKind::Small } else { PoolKind::Large };
            let snapshot = allocator.snapshot();
            let blocks = snapshot.segments.iter().filter(|s| s.pool == pool).flat_map(|s| &s.blocks);
            let free = blocks.filter(|b| b.state == BlockState::Inactive);
            most = most.max(free.clone().count());
            let best = free.filter(|b| b.bytes >= size).map(|b| (b.bytes, b.address)).min();
            let block = allocator.malloc(size).unwrap();
            if let Some((_, address)) = best {
                assert_eq!(block.address(), address, "step {step}: {size} bytes");
                taken += 1;
            }
            live.push(block);
        } else {
            // What was taken last comes back first, half of the time.
            let which = if random(2) == 0 { live.len() - 1 } else { random(live.len()) };
            allocator.free(live.swap_remove(which));
        }
    }
    assert!(taken > 1000 && most > 90, "{taken} requests met free blocks, at most {most} of them");
}
