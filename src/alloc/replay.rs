//! Replaying a trace through an allocator. A request that fails is noted and the trace goes on; freeing what it did not get does nothing.

use super::allocator::Allocator;
use super::block::Block;
use super::oom::OutOfMemory;
use super::trace::{Op, Trace};

/// Where in a trace statistics are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// At this operation, counted from 0.
    At(usize),
    /// After the last.
    End,
}

/// What had happened to PyTorch's allocator before any recording began: one small request came and went. Cumulative statistics
/// include it, and with the placement rule it has left its mark on addresses.
pub fn warm_up(allocator: &mut Allocator) {
    if let Ok(block) = allocator.malloc(4) {
        allocator.free(block);
    }
    allocator.empty_cache();
    allocator.reset_peaks();
}

/// Does to the allocator what the trace says, calls `probe` wherever the trace does and at the end, and returns the requests that
/// failed, by operation. What is still allocated at the end stays so.
pub fn replay(trace: &Trace, allocator: &mut Allocator, mut probe: impl FnMut(Probe, &Allocator)) -> Vec<(usize, OutOfMemory)> {
    let mut blocks: Vec<Option<Block>> = std::iter::repeat_with(|| None).take(trace.slots).collect();
    let mut failures = Vec::new();
    for (at, op) in trace.ops.iter().enumerate() {
        match *op {
            Op::Alloc { slot, bytes } => match allocator.malloc(bytes) {
                Ok(block) => blocks[slot as usize] = Some(block),
                Err(failure) => failures.push((at, failure)),
            },
            Op::Free { slot } => {
                if let Some(block) = blocks[slot as usize].take() {
                    allocator.free(block);
                }
            }
            Op::EmptyCache => allocator.empty_cache(),
            Op::Probe => probe(Probe::At(at), allocator),
        }
    }
    probe(Probe::End, allocator);
    failures
}
