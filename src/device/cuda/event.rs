//! Events: points in a stream's work, to wait for and to tell the GPU's time by; not what is computed between them.
//!
//! Invariant: an event is recorded before anybody waits for it or asks how long ago it was.

use std::cell::{Cell, RefCell};

use cudarc::driver::sys;

use super::bindings;
use super::context::Cuda;
use super::error::{CudaError, driver};

/// The stream that computes.
pub(super) const COMPUTING: sys::CUstream = std::ptr::null_mut();

/// An event of its own.
#[derive(Debug)]
pub(super) struct Event(sys::CUevent);

impl Event {
    /// One that tells time.
    pub(super) fn timed() -> Result<Self, CudaError> {
        Self::new(sys::CUevent_flags_enum::CU_EVENT_DEFAULT)
    }

    /// One that is only waited for, which is cheaper.
    pub(super) fn untimed() -> Result<Self, CudaError> {
        Self::new(sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING)
    }

    fn new(flags: sys::CUevent_flags_enum) -> Result<Self, CudaError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: `event` takes the handle.
        driver("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, flags as u32) })?;
        Ok(Self(event))
    }

    /// It will come to pass once all that was asked of the stream so far is done.
    pub(super) fn record(&self, stream: sys::CUstream) -> Result<(), CudaError> {
        // SAFETY: the event lives, and so does the stream, as whoever owns it promises.
        driver("cuEventRecord", unsafe { sys::cuEventRecord(self.0, stream) })
    }

    /// What is asked of the stream from now on waits for it; the program does not.
    pub(super) fn hold_back(&self, stream: sys::CUstream) -> Result<(), CudaError> {
        // SAFETY: as above.
        driver("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream, self.0, 0) })
    }

    /// Waits until it has come to pass.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        // SAFETY: the event lives.
        driver("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.0) })
    }

    /// How long after `earlier` it came to pass. Both have, and both tell time.
    pub(super) fn milliseconds_since(&self, earlier: &Self) -> Result<f32, CudaError> {
        let mut time = 0.0;
        // SAFETY: both events live; `time` takes the number.
        driver("cuEventElapsedTime", unsafe { bindings::driver::cuEventElapsedTime(&raw mut time, earlier.0, self.0) })?;
        Ok(time)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`; the driver keeps what it still needs of it. An answer has nobody to go to.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

/// How many moments are remembered.
const REMEMBERED: usize = 512;

/// A moment in the work of the stream that computes.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    slot: usize,
}

/// The events of marks, made as they are needed and used in turn.
#[derive(Debug, Default)]
pub(super) struct Marks {
    events: RefCell<Vec<Event>>,
    next: Cell<usize>,
}

impl Marks {
    pub(super) fn close(&mut self) {
        self.events.take();
    }
}

impl Cuda {
    /// Marks the moment at which all that was asked for so far is done. The last 512 are remembered.
    pub fn mark(&self) -> Mark {
        let slot = self.marks.next.replace((self.marks.next.get() + 1) % REMEMBERED);
        self.attempt(|| {
            let mut events = self.marks.events.borrow_mut();
            while events.len() <= slot {
                events.push(Event::timed()?);
            }
            events[slot].record(COMPUTING)
        });
        Mark { slot }
    }

    /// Seconds of the GPU's clock from one mark to a later one, once [`synchronize`](Self::synchronize) was called; 0 after a failure.
    #[must_use]
    pub fn seconds_between(&self, from: Mark, to: Mark) -> f64 {
        let milliseconds = self.attempt(|| {
            let events = self.marks.events.borrow();
            events[to.slot].milliseconds_since(&events[from.slot])
        });
        f64::from(milliseconds.unwrap_or(0.0)) / 1e3
    }
}
