//! The allocator as tensors share it, with a running account of what is held for what. Invariant: the categories add up to the
//! allocator's `allocated`, since nothing but storages takes blocks from it.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::Rc;

use super::storage::Storage;
use crate::alloc::{Allocator, Block, OutOfMemory};
use crate::record::{Categories, Category};

/// An allocator and the roles of the blocks it handed out.
pub struct Memory {
    allocator: RefCell<Allocator>,
    categories: Cell<Categories>,
    /// As they were when memory last ran out.
    at_failure: Cell<Categories>,
}

impl Memory {
    /// An allocator that has handed out nothing yet.
    #[must_use]
    pub fn new(allocator: Allocator) -> Rc<Self> {
        Rc::new(Self { allocator: RefCell::new(allocator), categories: Cell::default(), at_failure: Cell::default() })
    }

    /// A storage of at least `bytes`; 0 take nothing.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn allocate(self: &Rc<Self>, bytes: u64, category: Category) -> Result<Storage, OutOfMemory> {
        let block = self.allocator.borrow_mut().malloc(bytes).inspect_err(|_| self.at_failure.set(self.categories.get()))?;
        self.update(|c| c[category] += block.bytes());
        Ok(Storage::new(block, category, Rc::clone(self)))
    }

    pub(super) fn free(&self, block: Block, category: Category) {
        self.update(|c| c[category] -= block.bytes());
        self.allocator.borrow_mut().free(block);
    }

    pub(super) fn recount(&self, bytes: u64, from: Category, to: Category) {
        self.update(|c| {
            c[from] -= bytes;
            c[to] += bytes;
        });
    }

    fn update(&self, change: impl FnOnce(&mut Categories)) {
        let mut categories = self.categories.get();
        change(&mut categories);
        self.categories.set(categories);
    }

    /// Bytes of blocks in use, by role.
    #[must_use]
    pub fn categories(&self) -> Categories {
        self.categories.get()
    }

    /// The same at the moment when memory last ran out.
    #[must_use]
    pub fn categories_at_failure(&self) -> Categories {
        self.at_failure.get()
    }

    /// The allocator, to read.
    ///
    /// # Panics
    /// It is in use: a listener asked for it.
    #[must_use]
    pub fn allocator(&self) -> Ref<'_, Allocator> {
        self.allocator.borrow()
    }

    /// Gives back everything cached.
    pub fn empty_cache(&self) {
        self.allocator.borrow_mut().empty_cache();
    }

    /// Every peak falls to what is current.
    pub fn reset_peaks(&self) {
        self.allocator.borrow_mut().reset_peaks();
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("categories", &self.categories.get()).finish_non_exhaustive()
    }
}
