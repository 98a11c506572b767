//! Page-locked host memory: what the GPU reads and writes by itself while the program goes on.
//!
//! Invariant: while the GPU reads or writes a place, nobody else writes it: memory, or its parts, are with their owner then.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::Cuda;
use super::error::{CudaError, driver};
use super::event::COMPUTING;
use super::stream::CopyStream;

/// Bytes that can be uploaded without waiting.
#[derive(Debug)]
pub struct Pinned {
    cuda: Rc<Cuda>,
    memory: Memory,
}

/// Page-locked memory; null where there was none to be had, or nothing to hold.
#[derive(Debug)]
pub(super) struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: an address that is valid in every thread; what is written and read there goes through `&mut Memory`, or through parts of it that
// do not overlap.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` writes nothing, and whoever begins a copy from a part through it has that part to itself.
unsafe impl Sync for Memory {}

impl Memory {
    /// All zeros.
    pub(super) fn new(bytes: usize) -> Result<Self, CudaError> {
        let mut start = std::ptr::null_mut();
        if bytes > 0 {
            // SAFETY: `start` takes the address.
            driver("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&raw mut start, bytes, 0) })?;
            // SAFETY: so many bytes were just allocated there.
            unsafe { std::ptr::write_bytes(start.cast::<u8>(), 0, bytes) };
        }
        Ok(Self { start: start.cast(), bytes })
    }

    /// Overwrites it from byte `at` on. Nothing copies to or from there meanwhile.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at, "what is written lies within the memory");
        if !bytes.is_empty() {
            // SAFETY: the place is within this memory, which is nobody else's, and the caller has waited for the GPU.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) };
        }
    }

    /// Begins to copy `bytes` from byte `at` on to the GPU. Whoever owns the memory waits for that before it is written or given back.
    pub(super) fn upload(&self, at: usize, bytes: usize, to: u64, stream: sys::CUstream) -> Result<(), CudaError> {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "what is copied lies within the memory");
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the host's side is within this memory, which lives until its owner has waited; the device's side is a live block of at
        // least that size, as in `Cuda::upload`.
        driver("cuMemcpyHtoDAsync", unsafe { sys::cuMemcpyHtoDAsync_v2(to, self.start.add(at).cast(), bytes, stream) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: allocated in `new`; whoever owned it has waited for the GPU. An answer has nobody to go to.
            let _ = unsafe { sys::cuMemFreeHost(self.start.cast()) };
        }
    }
}

/// A part of page-locked memory, to be written by whoever has it, in any thread.
#[derive(Debug)]
pub struct Chunk {
    memory: Arc<Memory>,
    at: usize,
    bytes: usize,
}

impl Chunk {
    /// Parts of new memory: each begins at its place and has so many bytes. They do not overlap.
    pub(super) fn split(memory: Memory, parts: impl IntoIterator<Item = (usize, usize)>) -> Vec<Self> {
        let memory = Arc::new(memory);
        let mut end = 0;
        let part = |(at, bytes): (usize, usize)| {
            assert!(at >= end && at <= memory.bytes && bytes <= memory.bytes - at, "parts lie one behind the other within the memory");
            end = at + bytes;
            Self { memory: Arc::clone(&memory), at, bytes }
        };
        parts.into_iter().map(part).collect()
    }

    /// Whether the other part begins where this one ends.
    pub(super) fn goes_on_in(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory) && self.at + self.bytes == other.at
    }

    /// Begins to copy `bytes` from its beginning on to the GPU, past its end where others go on there. Whoever has it and those others
    /// keeps them until that is done.
    pub(super) fn upload(&self, bytes: usize, to: u64, stream: sys::CUstream) -> Result<(), CudaError> {
        self.memory.upload(self.at, bytes, to, stream)
    }

    /// The memory that it is part of.
    pub(super) fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }

    /// How many bytes it holds.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl AsMut<[u8]> for Chunk {
    fn as_mut(&mut self) -> &mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: within the memory, as `split` made sure, which lives as long as this; all bytes were written once. Parts do not overlap,
        // and this one is borrowed: nobody else has it, and the GPU does not read it, since whoever has it has waited for that.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(self.at), self.bytes) }
    }
}

impl Pinned {
    /// A copy of `bytes`.
    pub(super) fn new(cuda: &Rc<Cuda>, bytes: &[u8]) -> Self {
        let mut memory = cuda.attempt(|| Memory::new(bytes.len())).unwrap_or(Memory { start: std::ptr::null_mut(), bytes: 0 });
        if memory.bytes > 0 {
            memory.write(0, bytes);
        }
        Self { cuda: Rc::clone(cuda), memory }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.cuda.synchronize(); // an upload may still read it; a failure is kept
    }
}

/// How many small values may be on their way at a time.
const SLOTS: usize = 512;
/// Bytes of each.
const SLOT: usize = 8;

/// Room for small values on their way from the GPU.
#[derive(Debug, Default)]
pub(super) struct Readback {
    memory: OnceCell<Memory>,
    next: Cell<usize>,
}

/// A small value on its way.
#[derive(Debug, Clone, Copy)]
pub struct Pending {
    slot: usize,
}

impl Readback {
    pub(super) fn close(&mut self) {
        self.memory.take();
    }
}

impl Cuda {
    /// Copies to the GPU in the background: on the stream that computes, or beside it.
    pub fn upload_pinned(&self, to: u64, from: &Pinned, beside: Option<&CopyStream>) {
        self.attempt(|| from.memory.upload(0, from.memory.bytes, to, beside.map_or(COMPUTING, CopyStream::raw)));
    }

    /// Begins to read `bytes`, at most 8, as they will be once all work asked for so far is done. At most 512 may be on their way.
    ///
    /// # Panics
    /// They are more than 8.
    pub fn read_later(&self, from: u64, bytes: u64) -> Pending {
        assert!(bytes <= SLOT as u64, "only small values are read in the background");
        let slot = self.readback.next.replace((self.readback.next.get() + 1) % SLOTS);
        self.attempt(|| {
            if self.readback.memory.get().is_none() {
                let _ = self.readback.memory.set(Memory::new(SLOTS * SLOT)?);
            }
            let start = self.readback.memory.get().expect("just made").start;
            // SAFETY: the slot is within the memory, which lives as long as the context; the device's side is a live block, as in `upload`.
            driver("cuMemcpyDtoHAsync", unsafe {
                sys::cuMemcpyDtoHAsync_v2(start.add(slot * SLOT).cast(), from, bytes as usize, std::ptr::null_mut())
            })
        });
        Pending { slot }
    }

    /// A value that was begun to be read, once [`synchronize`](Self::synchronize) was called; zeros after a failure.
    #[must_use]
    pub fn value(&self, pending: Pending) -> [u8; SLOT] {
        let mut value = [0; SLOT];
        if let Some(memory) = self.readback.memory.get().filter(|_| self.check().is_ok()) {
            // SAFETY: the slot is within the memory, and the GPU has written it before the synchronisation.
            unsafe { std::ptr::copy_nonoverlapping(memory.start.add(pending.slot * SLOT), value.as_mut_ptr(), SLOT) };
        }
        value
    }

    /// A copy of `bytes` that can be uploaded without waiting, again and again.
    #[must_use]
    pub fn pinned(self: &Rc<Self>, bytes: &[u8]) -> Pinned {
        Pinned::new(self, bytes)
    }
}
