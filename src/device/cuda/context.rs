//! One GPU in use: its primary context, everything made in it, and copies to and from it. All work goes to the default stream, in order,
//! but for batches that are copied ahead.
//!
//! Work on a GPU answers late. A failure is therefore kept, the first one, and everything after it does nothing; [`Cuda::check`] tells.
//! Whoever reads values or ends a phase asks it, so that no number that a failed GPU gave is ever written down.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cudarc::driver::sys;

use super::blas::Blas;
use super::dnn::Dnn;
use super::error::{CudaError, driver};
use super::event::Marks;
use super::facts::{Facts, facts};
use super::library::{Library, require};
use super::matmul::Lt;
use super::module::Modules;
use super::nvml::{self, Gauge};
use super::pinned::Readback;
use super::segments::Segments;

/// A GPU with its context. Not shared between threads: the context is current on the one that opened it.
#[derive(Debug)]
pub struct Cuda {
    pub(super) facts: Facts,
    pub(super) modules: Modules,
    pub(super) blas: Blas,
    pub(super) dnn: Dnn,
    pub(super) lt: Lt,
    pub(super) readback: Readback,
    pub(super) marks: Marks,
    failure: OnceCell<CudaError>,
    /// Nothing is done: only what would be launched is noted. There is no context.
    pub(super) rehearses: bool,
    /// Bytes held on the GPU before and after its context was made.
    start: Start,
    /// Bytes that making handles and loading kernels took.
    libraries: Cell<u64>,
    loaded: Cell<u64>,
}

/// What the GPU held while this process set it up, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// By all processes, before this one had a context; NVML tells.
    pub before_context: Option<u64>,
    /// By all processes, right after.
    pub after_context: u64,
    /// By this process, right after; NVML tells.
    pub process_after_context: Option<u64>,
}

/// What the GPU holds at a moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// By all processes, as the driver counts.
    pub device: u64,
    /// By this process, as NVML counts; `None` where it does not say.
    pub process: Option<u64>,
}

impl Cuda {
    /// Takes GPU `ordinal` into use.
    ///
    /// # Errors
    /// A library is missing, there is no such GPU, or a call fails.
    pub fn open(ordinal: u32) -> Result<Rc<Self>, CudaError> {
        require(&Library::NEEDED)?;
        let facts = facts(ordinal)?;
        let before_context = nvml::device_used(&facts.bus);
        let mut context = std::ptr::null_mut();
        // SAFETY: `facts.device` is a GPU of this driver; `context` takes the handle.
        driver("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, facts.device) })?;
        // SAFETY: `context` is the context just retained.
        driver("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) })?;
        let (free, total) = memory_info()?;
        let process_after_context = nvml::process_used(&facts.bus);
        let start = Start { before_context, after_context: total - free, process_after_context };
        Ok(Rc::new(Self::new(facts, start, false)))
    }

    fn new(facts: Facts, start: Start, rehearses: bool) -> Self {
        Self {
            modules: Modules::new(facts.gpu.capability),
            facts,
            blas: Blas::default(),
            dnn: Dnn::default(),
            lt: Lt::default(),
            readback: Readback::default(),
            marks: Marks::default(),
            failure: OnceCell::new(),
            rehearses,
            start,
            libraries: Cell::new(0),
            loaded: Cell::new(0),
        }
    }

    /// A stand-in that computes nothing and touches no memory: it notes which kernels it is asked for, for [`prepare`](Self::prepare).
    /// What is read from it is zeros.
    #[must_use]
    pub fn rehearsal(&self) -> Rc<Self> {
        Rc::new(Self::new(self.facts.clone(), Start::default(), true))
    }

    /// Whether nothing is computed.
    #[must_use]
    pub fn rehearses(&self) -> bool {
        self.rehearses
    }

    /// Compiles all that a rehearsal was asked for, several sources at a time.
    pub fn prepare(&self, rehearsal: &Self) {
        self.modules.prepare(&rehearsal.modules);
    }

    /// The kernels that a rehearsal was asked for, by their source and its types, e.g. `softmax-f16-f32`.
    #[must_use]
    pub fn noted(&self) -> BTreeMap<String, BTreeSet<&'static str>> {
        self.modules.noted()
    }

    /// What the driver says of this GPU.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What the GPU held while it was set up.
    #[must_use]
    pub fn start(&self) -> Start {
        self.start
    }

    /// A source of segments for an allocator of its own.
    #[must_use]
    pub fn segments(self: &Rc<Self>) -> Segments {
        Segments::new(Rc::clone(self))
    }

    /// The first failure there was, if any.
    ///
    /// # Errors
    /// That failure.
    pub fn check(&self) -> Result<(), CudaError> {
        self.failure.get().map_or(Ok(()), |e| Err(e.clone()))
    }

    /// Runs `work` unless something failed before, and keeps its failure.
    pub(super) fn attempt<T>(&self, work: impl FnOnce() -> Result<T, CudaError>) -> Option<T> {
        if self.rehearses || self.failure.get().is_some() {
            return None;
        }
        work().map_err(|e| self.failure.set(e)).ok()
    }

    /// Waits until everything asked for is done.
    ///
    /// # Errors
    /// The first failure there was.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the context is current.
        self.attempt(|| driver("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() }));
        self.check()
    }

    /// Copies `bytes` to the GPU. They are read before this returns.
    pub fn upload(&self, to: u64, bytes: &[u8]) {
        // SAFETY: the host's side is a slice; the device's side is a live block of at least that size, as whoever owns it promises, and the
        // driver refuses a copy past the segment.
        self.attempt(|| driver("cuMemcpyHtoD", unsafe { sys::cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), bytes.len()) }));
    }

    /// Copies from the GPU, once all earlier work is done.
    ///
    /// # Errors
    /// The first failure there was: `bytes` are then as they were.
    pub fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        // SAFETY: as in `upload`.
        self.attempt(|| driver("cuMemcpyDtoH", unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), from, bytes.len()) }));
        self.check()
    }

    /// Copies within the GPU.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) {
        // SAFETY: both sides are live blocks of at least that size, as in `upload`.
        self.attempt(|| driver("cuMemcpyDtoDAsync", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, std::ptr::null_mut()) }));
    }

    /// Sets every byte to `value`.
    pub fn fill(&self, to: u64, value: u8, bytes: u64) {
        // SAFETY: a live block of at least that size, as in `upload`.
        self.attempt(|| driver("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(to, value, bytes as usize, std::ptr::null_mut()) }));
    }

    /// Bytes that libraries' handles and loaded kernels took so far, each as seen while it was made.
    #[must_use]
    pub fn libraries(&self) -> u64 {
        self.libraries.get()
    }

    /// Runs `work`, which makes a handle or loads kernels, and counts what the GPU holds more afterwards.
    pub(super) fn counted<T>(&self, work: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
        let (free_before, _) = memory_info()?;
        let value = work()?;
        let (free_after, _) = memory_info()?;
        self.libraries.set(self.libraries.get() + free_before.saturating_sub(free_after));
        Ok(value)
    }

    /// Bytes that the GPU held more than was accounted for whenever [`count_loaded`](Self::count_loaded) was called.
    #[must_use]
    pub fn loaded(&self) -> u64 {
        self.loaded.get()
    }

    /// Takes what the GPU holds besides its context, counted libraries and `reserved` bytes for what libraries have loaded by themselves.
    pub fn count_loaded(&self, reserved: u64) {
        self.attempt(|| {
            let (free, total) = memory_info()?;
            let known = self.start.after_context + self.libraries() + self.loaded() + reserved;
            self.loaded.set(self.loaded() + (total - free).saturating_sub(known));
            Ok(())
        });
    }

    /// What tells how busy this GPU is, from any thread; `None` where NVML is missing or does not know the GPU.
    #[must_use]
    pub fn gauge(&self) -> Option<Gauge> {
        Gauge::of(&self.facts.bus)
    }

    /// What the GPU holds now.
    ///
    /// # Errors
    /// A call fails.
    pub fn usage(&self) -> Result<Usage, CudaError> {
        let (free, total) = memory_info()?;
        Ok(Usage { device: total - free, process: nvml::process_used(&self.facts.bus) })
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.rehearses {
            return;
        }
        self.readback.close();
        self.marks.close();
        self.dnn.close();
        self.blas.close();
        self.lt.close();
        self.modules.close();
        // SAFETY: retained once, in `open`; nothing made in it is used after this. An answer has nobody to go to.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.facts.device) };
    }
}

/// Free and total bytes of the current GPU.
pub(super) fn memory_info() -> Result<(u64, u64), CudaError> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both take numbers.
    driver("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
    Ok((free as u64, total as u64))
}
