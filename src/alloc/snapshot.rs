//! The allocator's memory as it lies: segments and the blocks that tile them, by address. For reading only, and not on any fast path.

use super::allocator::Allocator;
use super::block::{Index, NONE, State};
use super::pool::PoolKind;

/// Every segment, by address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The segments.
    pub segments: Vec<Segment>,
}

/// A segment; of one that expands, a stretch that is mapped without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Whose it is.
    pub pool: PoolKind,
    /// Whether it is part of an expandable segment.
    pub expandable: bool,
    /// What tiles it, by address.
    pub blocks: Vec<BlockInfo>,
}

/// A block of a [`Segment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockInfo {
    /// Where it begins.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// What its client asked for; 0 of a free block, where PyTorch still has the last client's request.
    pub requested: u64,
    /// Whether a client holds it.
    pub state: BlockState,
}

/// Whether a client holds a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// A client does.
    Allocated,
    /// Nobody does.
    Inactive,
}

impl Allocator {
    /// The memory as it lies now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut first_blocks: Vec<Index> = self.nodes.indices().filter(|&i| self.nodes[i].prev == NONE).collect();
        first_blocks.sort_unstable_by_key(|&i| self.nodes[i].address);
        let mut segments = Vec::with_capacity(first_blocks.len());
        for first in first_blocks {
            let chain = std::iter::successors(Some(first), |&i| Some(self.nodes[i].next).filter(|&n| n != NONE));
            let mut gap = true;
            for node in chain.map(|i| &self.nodes[i]) {
                if node.is(State::Unmapped) {
                    gap = true;
                    continue;
                }
                if std::mem::take(&mut gap) {
                    let expandable = self.config.expandable_segments;
                    segments.push(Segment { address: node.address, bytes: 0, pool: node.pool(), expandable, blocks: Vec::new() });
                }
                let (state, requested) = match node.is(State::Allocated) {
                    true => (BlockState::Allocated, node.requested()),
                    false => (BlockState::Inactive, 0),
                };
                if let Some(segment) = segments.last_mut() {
                    segment.bytes += node.size();
                    segment.blocks.push(BlockInfo { address: node.address, bytes: node.size(), requested, state });
                }
            }
        }
        Snapshot { segments }
    }
}
