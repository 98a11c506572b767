//! A second stream, for copies that go on while the first computes. What order there is between the two is made by events.
//!
//! Invariant: nothing is copied into memory that work asked for before may still use, and nothing that is asked for later uses memory
//! before the copy into it is done: [`after_computing`](CopyStream::after_computing) before the copies,
//! [`before_computing`](CopyStream::before_computing) after them.

use std::rc::Rc;

use cudarc::driver::sys;

use super::context::Cuda;
use super::error::{CudaError, driver};
use super::event::{COMPUTING, Event};

/// The stream, with its events.
#[derive(Debug)]
pub struct CopyStream {
    cuda: Rc<Cuda>,
    /// `None` where it could not be made, which the context remembers as its failure.
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    stream: sys::CUstream,
    /// On the stream that computes: whatever used the memory that is copied into is done.
    unused: Event,
    /// On this one: what was copied is there.
    there: Event,
}

impl Made {
    fn new() -> Result<Self, CudaError> {
        let (unused, there) = (Event::untimed()?, Event::untimed()?);
        let mut stream = std::ptr::null_mut();
        // One that blocked would wait for the default stream at every copy.
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `stream` takes the handle.
        driver("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        Ok(Self { stream, unused, there })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: created in `new`; the driver finishes what was asked of it. An answer has nobody to go to.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
    }
}

impl CopyStream {
    /// Copies asked for from now on wait until all that was asked of the computing stream so far is done.
    pub fn after_computing(&self) {
        self.attempt(|made| made.unused.record(COMPUTING).and_then(|()| made.unused.hold_back(made.stream)));
    }

    /// What is asked of the computing stream from now on waits until all copies so far are done.
    pub fn before_computing(&self) {
        self.attempt(|made| made.there.record(made.stream).and_then(|()| made.there.hold_back(COMPUTING)));
    }

    /// Copies bytes from memory that is not page-locked. They have been read when this returns.
    pub fn upload(&self, to: u64, bytes: &[u8]) {
        // SAFETY: the host's side is a slice, which the driver has read when it returns, since it is not page-locked; the device's side is
        // a live block of at least that size, as whoever owns it promises.
        self.attempt(|made| {
            driver("cuMemcpyHtoDAsync", unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), made.stream) })
        });
    }

    /// The stream itself; that which computes where it could not be made, and then nothing is asked of either.
    pub(super) fn raw(&self) -> sys::CUstream {
        self.made.as_ref().map_or(COMPUTING, |made| made.stream)
    }

    fn attempt(&self, work: impl FnOnce(&Made) -> Result<(), CudaError>) {
        self.cuda.attempt(|| self.made.as_ref().map_or(Ok(()), work));
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        let _ = self.cuda.synchronize(); // a copy may still write; a failure is kept
    }
}

impl Cuda {
    /// A stream for copies beside the one that computes.
    #[must_use]
    pub fn copy_stream(self: &Rc<Self>) -> CopyStream {
        CopyStream { made: self.attempt(Made::new), cuda: Rc::clone(self) }
    }
}
