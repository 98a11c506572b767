//! The placement rule: where the CUDA driver puts PyTorch's segments, as observed on an H200. [`AddressSpace`] is the rule;
//! [`Placement`] is the rule without any memory behind its numbers, the virtual device's backing, and numbers the host device's segments.
//! On CUDA memory is mapped where the rule says.
//!
//! Address space is taken in chunks of a multiple of 32 MiB, from the top down: a new chunk is the highest that fits between those
//! there are, directly below the lowest at first. A segment lies at the bottom of its chunk; what is left above it, and whatever is
//! released, becomes a free range of that chunk. A request takes the lowest free range that holds it, and a new chunk only if none
//! does. A chunk that is one free range is given up.

use std::collections::BTreeMap;
use std::ops::Range;

use super::backing::{Backing, BackingError};
use crate::meta::bytes::MIB;

const CHUNK: u64 = 32 * MIB;
const GRANULE: u64 = 2 * MIB;
/// The first chunk ends here. Only differences between addresses matter; this looks like a driver's.
const TOP: u64 = 0x7f00_0000_0000;

/// Which addresses are taken and which come next.
#[derive(Debug, Clone)]
pub struct AddressSpace {
    /// Chunks, address to length.
    chunks: BTreeMap<u64, u64>,
    /// What lies between the chunks and below them, address to length; no two touch.
    holes: BTreeMap<u64, u64>,
    /// Free ranges in chunks, address to length; no two of one chunk touch, and none is all of its chunk.
    ranges: BTreeMap<u64, u64>,
}

impl AddressSpace {
    /// All addresses from `floor` up to `top`, none taken.
    #[must_use]
    pub fn new(floor: u64, top: u64) -> Self {
        Self { chunks: BTreeMap::new(), holes: BTreeMap::from([(floor, top - floor)]), ranges: BTreeMap::new() }
    }

    /// The address of the next `bytes` bytes; none if there is no room.
    pub fn place(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(GRANULE)?;
        if let Some((&address, &length)) = self.ranges.iter().find(|&(_, &length)| length >= bytes) {
            self.ranges.remove(&address);
            if length > bytes {
                self.ranges.insert(address + bytes, length - bytes);
            }
            return Some(address);
        }
        let chunk = bytes.checked_next_multiple_of(CHUNK)?;
        let (&hole, &length) = self.holes.iter().rev().find(|&(_, &length)| length >= chunk)?;
        let address = hole + length - chunk;
        if length > chunk {
            self.holes.insert(hole, length - chunk);
        } else {
            self.holes.remove(&hole);
        }
        self.chunks.insert(address, chunk);
        if chunk > bytes {
            self.ranges.insert(address + bytes, chunk - bytes);
        }
        Some(address)
    }

    /// Takes back what [`place`](Self::place) gave.
    ///
    /// # Panics
    /// Nothing was given below that address.
    pub fn unplace(&mut self, address: u64, bytes: u64) {
        let (&chunk, &length) = self.chunks.range(..=address).next_back().expect("what is taken back was given");
        let range = join(&mut self.ranges, address, bytes.next_multiple_of(GRANULE), chunk..chunk + length);
        if range == (chunk, length) {
            self.ranges.remove(&chunk);
            self.chunks.remove(&chunk);
            join(&mut self.holes, chunk, length, 0..u64::MAX);
        }
    }
}

/// Adds a range, joined with those that it touches `within` bounds; gives the whole.
fn join(ranges: &mut BTreeMap<u64, u64>, mut address: u64, mut length: u64, within: Range<u64>) -> (u64, u64) {
    let above = address + length;
    if above < within.end
        && let Some(more) = ranges.remove(&above)
    {
        length += more;
    }
    if let Some((&below, &more)) = ranges.range(within.start..address).next_back()
        && below + more == address
    {
        address = below;
        length += more;
    }
    ranges.insert(address, length);
    (address, length)
}

/// Addresses by the placement rule, memory counted up to a capacity.
#[derive(Debug, Clone)]
pub struct Placement {
    total: u64,
    taken: u64,
    space: AddressSpace,
}

impl Placement {
    /// A device of `total` bytes, all free.
    #[must_use]
    pub fn new(total: u64) -> Self {
        Self { total, taken: 0, space: AddressSpace::new(0, TOP) }
    }

    fn take(&mut self, bytes: u64) -> Result<(), BackingError> {
        if bytes > self.total - self.taken {
            return Err(BackingError { bytes });
        }
        self.taken += bytes;
        Ok(())
    }
}

impl Backing for Placement {
    fn total_memory(&self) -> u64 {
        self.total
    }

    fn free_memory(&self) -> u64 {
        self.total - self.taken
    }

    fn process_memory(&self) -> Option<u64> {
        Some(self.taken)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError> {
        self.take(bytes)?;
        self.space.place(bytes).ok_or_else(|| {
            self.taken -= bytes;
            BackingError { bytes }
        })
    }

    fn release(&mut self, address: u64, bytes: u64) {
        self.taken -= bytes;
        self.space.unplace(address, bytes);
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        self.space.place(bytes).ok_or(BackingError { bytes })
    }

    fn unreserve(&mut self, address: u64, bytes: u64) {
        self.space.unplace(address, bytes);
    }

    fn map(&mut self, _address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        self.take(pages * page)
    }

    fn unmap(&mut self, _address: u64, pages: u64, page: u64) {
        self.taken -= pages * page;
    }
}
