//! An adaptor for tests: a backing that refuses chosen requests, as a device does that others use too.

use super::backing::{Backing, BackingError};

/// Refuses the requests for memory (segments and pages, counted from 1) for which `refuse` says so; passes everything else on.
pub struct Failing<B, F> {
    inner: B,
    refuse: F,
    calls: u64,
}

impl<B: Backing, F: FnMut(u64) -> bool> Failing<B, F> {
    /// `inner`, refusing its nth request where `refuse(n)`.
    pub fn new(inner: B, refuse: F) -> Self {
        Self { inner, refuse, calls: 0 }
    }

    fn ask(&mut self, bytes: u64) -> Result<(), BackingError> {
        self.calls += 1;
        if (self.refuse)(self.calls) { Err(BackingError { bytes }) } else { Ok(()) }
    }
}

impl<B: Backing, F: FnMut(u64) -> bool> Backing for Failing<B, F> {
    fn total_memory(&self) -> u64 {
        self.inner.total_memory()
    }

    fn free_memory(&self) -> u64 {
        self.inner.free_memory()
    }

    fn process_memory(&self) -> Option<u64> {
        self.inner.process_memory()
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError> {
        self.ask(bytes)?;
        self.inner.allocate(bytes)
    }

    fn release(&mut self, address: u64, bytes: u64) {
        self.inner.release(address, bytes);
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        self.inner.reserve(bytes)
    }

    fn unreserve(&mut self, address: u64, bytes: u64) {
        self.inner.unreserve(address, bytes);
    }

    fn map(&mut self, address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        self.ask(pages * page)?;
        self.inner.map(address, pages, page)
    }

    fn unmap(&mut self, address: u64, pages: u64, page: u64) {
        self.inner.unmap(address, pages, page);
    }
}
