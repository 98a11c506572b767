//! Sizes: how a request becomes a block size, which pool it belongs to, and how large a new segment for it is.
//! Every size past [`round_up`] is a positive multiple of 512.

use super::config::{AllocatorConfig, Divisions};
use super::pool::PoolKind;
use crate::meta::bytes::MIB;

/// The smallest block, and the multiple every block size is of.
pub(super) const MIN_BLOCK: u64 = 512;
/// Blocks up to this size live in the small pool.
pub(super) const SMALL_SIZE: u64 = MIB;
/// The size of a small pool's segment, and of its pages where segments expand.
pub(super) const SMALL_SEGMENT: u64 = 2 * MIB;
/// Requests from here on get a segment of their own size.
pub(super) const MIN_LARGE_ALLOC: u64 = 10 * MIB;
/// What such a segment's size is a multiple of.
pub(super) const ROUND_LARGE: u64 = 2 * MIB;
/// The segment between the two, unless configured otherwise.
pub(super) const LARGE_SEGMENT: u64 = 20 * MIB;
/// Requests from here on are refused before anything is tried or counted.
pub(super) const EXABYTE: u64 = 1 << 60;

/// The block size for a request of `bytes` ≥ 1.
#[inline]
pub(super) fn round_up(bytes: u64, divisions: &Divisions) -> u64 {
    let d = divisions.at(bytes);
    if d > 1 && bytes > MIN_BLOCK.saturating_mul(d) { round_up_to_division(bytes, d) } else { (bytes + MIN_BLOCK - 1) & !(MIN_BLOCK - 1) }
}

/// `bytes` rounded up to one of the `divisions` equal steps between its two neighbouring powers of two.
fn round_up_to_division(bytes: u64, divisions: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let below = 1u64 << bytes.ilog2();
    match below >> divisions.ilog2() {
        0 => below << 1,
        step => bytes.next_multiple_of(step),
    }
}

/// The size of a new segment for a block of `size`.
pub(super) fn segment_for(size: u64, config: &AllocatorConfig) -> u64 {
    if size <= SMALL_SIZE {
        SMALL_SEGMENT
    } else if size < MIN_LARGE_ALLOC {
        config.large_segment_size
    } else {
        size.next_multiple_of(ROUND_LARGE)
    }
}

impl PoolKind {
    /// The pool of a block of `size`: decided on the rounded size, so a request just below 1 MiB may be small and one byte more large.
    #[inline]
    pub(super) fn of(size: u64) -> Self {
        if size <= SMALL_SIZE { Self::Small } else { Self::Large }
    }
}
