//! A backing that puts segments where a recording says a driver put them, so that a replay meets the same ties.
//! It does not check that the same segments are asked for: who replays compares the events.

use super::backing::{Backing, BackingError};

/// One line of a recording: a whole segment, or the first pages of one that expands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedSegment {
    /// Where it was.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Whether pages were mapped there, rather than a segment allocated.
    pub mapped: bool,
}

/// Segments at recorded addresses: the nth at the nth address. Past the recording's end, above everything recorded.
#[derive(Debug, Clone)]
pub struct Recorded {
    total: u64,
    taken: u64,
    segments: std::vec::IntoIter<u64>,
    /// Where each mapping began. The first after a reservation begins at the reservation's own start.
    maps: std::vec::IntoIter<u64>,
    above: u64,
}

impl Recorded {
    /// A device of `total` bytes that allocated and mapped as recorded, after a [warm-up](super::warm_up), which recordings leave out.
    /// Nothing else exists at that time, so its segment may lie anywhere.
    #[must_use]
    pub fn new(total: u64, recording: &[RecordedSegment]) -> Self {
        let addresses = |mapped| {
            let recorded = recording.iter().filter(|s| s.mapped == mapped).map(|s| s.address);
            std::iter::once(0).chain(recorded).collect::<Vec<_>>().into_iter()
        };
        let above = recording.iter().map(|s| s.address + s.bytes).max().unwrap_or(0);
        Self { total, taken: 0, segments: addresses(false), maps: addresses(true), above }
    }

    fn take(&mut self, bytes: u64) -> Result<(), BackingError> {
        if bytes > self.total - self.taken {
            return Err(BackingError { bytes });
        }
        self.taken += bytes;
        Ok(())
    }

    fn next_above(&mut self, bytes: u64) -> u64 {
        let address = self.above;
        self.above += bytes;
        address
    }
}

impl Backing for Recorded {
    fn total_memory(&self) -> u64 {
        self.total
    }

    fn free_memory(&self) -> u64 {
        self.total - self.taken
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError> {
        self.take(bytes)?;
        Ok(self.segments.next().unwrap_or_else(|| self.next_above(bytes)))
    }

    fn release(&mut self, _address: u64, bytes: u64) {
        self.taken -= bytes;
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        let first_map = self.maps.as_slice().first().copied();
        Ok(first_map.unwrap_or_else(|| self.next_above(bytes)))
    }

    fn unreserve(&mut self, _address: u64, _bytes: u64) {}

    fn map(&mut self, _address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        self.take(pages * page)?;
        self.maps.next();
        Ok(())
    }

    fn unmap(&mut self, _address: u64, pages: u64, page: u64) {
        self.taken -= pages * page;
    }
}
