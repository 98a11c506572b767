//! The placement rule: where the CUDA driver puts PyTorch's segments, as observed on an H200. [`AddressSpace`] is the rule;
//! [`Placement`] is the rule without any memory behind its numbers, the virtual device's backing, and numbers the host device's segments.
//! On CUDA memory is mapped where the rule says.
//!
//! Address space is handed out in chunks of a multiple of 32 MiB, each directly below the last. A segment lies at the bottom of
//! its chunk; what is left above it, and whatever is released, becomes a free range, merged with those it touches. A request takes
//! the lowest free range that holds it, and a new chunk only if none does.

use std::collections::BTreeMap;

use super::backing::{Backing, BackingError};
use crate::meta::bytes::MIB;

const CHUNK: u64 = 32 * MIB;
const GRANULE: u64 = 2 * MIB;
/// The first chunk ends here. Only differences between addresses matter; this looks like a driver's.
const TOP: u64 = 0x7f00_0000_0000;

/// Which addresses are taken and which come next.
#[derive(Debug, Clone)]
pub struct AddressSpace {
    /// Nothing lies below.
    floor: u64,
    /// Bottom of the lowest chunk.
    bottom: u64,
    /// Free ranges, address to length; no two touch.
    ranges: BTreeMap<u64, u64>,
}

impl AddressSpace {
    /// All addresses from `floor` up to `top`, none taken.
    #[must_use]
    pub fn new(floor: u64, top: u64) -> Self {
        Self { floor, bottom: top, ranges: BTreeMap::new() }
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
        self.bottom = self.bottom.checked_sub(chunk).filter(|&bottom| bottom >= self.floor)?;
        if chunk > bytes {
            self.give(self.bottom + bytes, chunk - bytes);
        }
        Some(self.bottom)
    }

    /// Takes back what [`place`](Self::place) gave.
    pub fn unplace(&mut self, address: u64, bytes: u64) {
        self.give(address, bytes.next_multiple_of(GRANULE));
    }

    fn give(&mut self, mut address: u64, mut length: u64) {
        if let Some(above) = self.ranges.remove(&(address + length)) {
            length += above;
        }
        if let Some((&below, &below_length)) = self.ranges.range(..address).next_back()
            && below + below_length == address
        {
            address = below;
            length += below_length;
        }
        self.ranges.insert(address, length);
    }
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

    /// The same device after something else took `bytes` of it: a driver's context, libraries.
    #[must_use]
    pub fn taken(mut self, bytes: u64) -> Self {
        self.taken = self.taken.saturating_add(bytes).min(self.total);
        self
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
