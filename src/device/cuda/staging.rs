//! Batches on their way to the GPU by way of page-locked memory: while one is copied, the next is written beside it.
//!
//! Invariant: a slot is written again only when the GPU has read what was in it.

use std::rc::Rc;

use super::context::Cuda;
use super::error::CudaError;
use super::event::{COMPUTING, Event};
use super::pinned::Memory;
use super::stream::CopyStream;

/// Batches that may be on their way at a time.
const SLOTS: usize = 3;
/// Parts of a batch begin at multiples of this, in bytes.
const ALIGNMENT: usize = 256;

/// The page-locked memory.
#[derive(Debug)]
pub struct Staging {
    cuda: Rc<Cuda>,
    slots: [Option<Slot>; SLOTS],
    next: usize,
}

#[derive(Debug)]
struct Slot {
    memory: Memory,
    /// The GPU has read what was last written.
    read: Event,
}

impl Staging {
    /// Copies the parts of a batch to addresses on the GPU, in the background: on the stream that computes, or beside it. They have been read
    /// when this returns.
    pub fn upload(&mut self, parts: &[(u64, &[u8])], beside: Option<&CopyStream>) {
        let slot = &mut self.slots[self.next];
        self.next = (self.next + 1) % SLOTS;
        self.cuda.attempt(|| put(slot, parts, beside.map_or(COMPUTING, CopyStream::raw)));
    }
}

fn put(slot: &mut Option<Slot>, parts: &[(u64, &[u8])], stream: cudarc::driver::sys::CUstream) -> Result<(), CudaError> {
    let room = |bytes: &[u8]| bytes.len().next_multiple_of(ALIGNMENT);
    let needed = parts.iter().map(|(_, bytes)| room(bytes)).sum();
    if let Some(slot) = slot.as_ref() {
        slot.read.wait()?;
    }
    let slot = match slot {
        Some(slot) if slot.memory.bytes() >= needed => slot,
        small => {
            // The old memory goes first.
            *small = None;
            small.insert(Slot { memory: Memory::new(needed)?, read: Event::untimed()? })
        }
    };
    let mut start = 0;
    for (to, bytes) in parts {
        slot.memory.write(start, bytes);
        slot.memory.upload(start, bytes.len(), *to, stream)?;
        start += room(bytes);
    }
    slot.read.record(stream)
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = self.cuda.synchronize(); // a copy may still read; a failure is kept
    }
}

impl Cuda {
    /// Page-locked memory for batches, taken as it is needed.
    #[must_use]
    pub fn staging(self: &Rc<Self>) -> Staging {
        Staging { cuda: Rc::clone(self), slots: [const { None }; SLOTS], next: 0 }
    }
}
