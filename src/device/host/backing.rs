//! Segments with host memory behind them. Another backing decides their addresses, by default the placement rule, so that a run on
//! the host has the same addresses, splits and ties as one on a GPU.

use std::cell::RefCell;
use std::rc::Rc;

use super::arena::Arena;
use crate::alloc::{Backing, BackingError};

/// A backing's addresses, with memory behind them.
#[derive(Debug)]
pub struct HostBacking<B> {
    numbers: B,
    arena: Rc<RefCell<Arena>>,
    /// Whether this machine had no memory where the numbers had room. What a run does after that says nothing about the device that it
    /// stands in for.
    is_full: bool,
}

impl<B: Backing> HostBacking<B> {
    /// Memory behind what `numbers` hands out.
    pub fn new(numbers: B) -> Self {
        Self { numbers, arena: Rc::default(), is_full: false }
    }

    /// The memory, for whoever computes on it.
    #[must_use]
    pub fn arena(&self) -> Rc<RefCell<Arena>> {
        Rc::clone(&self.arena)
    }
}

impl<B: Backing> Backing for HostBacking<B> {
    fn total_memory(&self) -> u64 {
        self.numbers.total_memory()
    }

    fn free_memory(&self) -> u64 {
        self.numbers.free_memory()
    }

    fn process_memory(&self) -> Option<u64> {
        self.numbers.process_memory()
    }

    fn machine_is_full(&self) -> bool {
        self.is_full
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError> {
        if self.is_full {
            return Err(BackingError { bytes });
        }
        let address = self.numbers.allocate(bytes)?;
        if self.arena.borrow_mut().insert(address, bytes) {
            return Ok(address);
        }
        self.numbers.release(address, bytes);
        self.is_full = true;
        Err(BackingError { bytes })
    }

    fn release(&mut self, address: u64, bytes: u64) {
        self.arena.borrow_mut().remove(address, bytes);
        self.numbers.release(address, bytes);
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        let address = self.numbers.reserve(bytes)?;
        self.arena.borrow_mut().reserve(address, bytes);
        Ok(address)
    }

    fn unreserve(&mut self, address: u64, bytes: u64) {
        self.arena.borrow_mut().unreserve(address);
        self.numbers.unreserve(address, bytes);
    }

    fn map(&mut self, address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        if self.is_full {
            return Err(BackingError { bytes: pages * page });
        }
        self.numbers.map(address, pages, page)?;
        if self.arena.borrow_mut().map(address, pages * page) {
            return Ok(());
        }
        self.numbers.unmap(address, pages, page);
        self.is_full = true;
        Err(BackingError { bytes: pages * page })
    }

    fn unmap(&mut self, address: u64, pages: u64, page: u64) {
        self.arena.borrow_mut().unmap(address, pages * page);
        self.numbers.unmap(address, pages, page);
    }
}
