//! The allocator as tensors share it, with a running account of what is held for what. Invariant: the categories add up to the
//! allocator's `allocated`, since nothing but storages takes blocks from it.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::Rc;

use super::storage::Storage;
use crate::alloc::{Allocator, Block, Event, OutOfMemory, Stats};
use crate::record::{Categories, Category, Running};

/// Told what happens to memory, as it happens. It sees, and changes nothing.
pub trait Watcher {
    /// The allocator did something for what was running; what it allocated plays that role.
    fn event(&mut self, event: &Event, running: &Running, category: Category);

    /// The block at `address` plays another role from now on.
    fn becomes(&mut self, address: u64, category: Category, running: &Running);

    /// The program gives back what is cached; the segments that go are told next.
    fn empties_cache(&mut self);

    /// A request failed, after everything cached was given back. `past_peaks` are peaks that were reset since.
    fn ran_out(&mut self, failure: &OutOfMemory, running: &Running, category: Category, allocator: &Allocator, past_peaks: &Stats);
}

/// A watcher that others keep too.
pub type SharedWatcher = Rc<RefCell<dyn Watcher>>;

/// An allocator and the roles of the blocks it handed out.
pub struct Memory {
    allocator: RefCell<Allocator>,
    running: Rc<Cell<Running>>,
    /// Of the allocation under way.
    category: Rc<Cell<Category>>,
    watcher: RefCell<Option<SharedWatcher>>,
    /// Peaks that were reset.
    past_peaks: Cell<Stats>,
    categories: Cell<Categories>,
    /// As they were when memory last ran out, and the bytes of all of them.
    at_failure: Cell<(Categories, u64)>,
}

impl Memory {
    /// An allocator that has handed out nothing yet.
    #[must_use]
    pub fn new(allocator: Allocator) -> Rc<Self> {
        Rc::new(Self {
            allocator: RefCell::new(allocator),
            running: Rc::default(),
            category: Rc::new(Cell::new(Category::Other)),
            watcher: RefCell::default(),
            past_peaks: Cell::default(),
            categories: Cell::default(),
            at_failure: Cell::default(),
        })
    }

    /// Tells `watcher` everything from now on.
    pub fn watch(&self, watcher: SharedWatcher) {
        let (running, category, listener) = (Rc::clone(&self.running), Rc::clone(&self.category), Rc::clone(&watcher));
        let listener = move |event: Event| listener.borrow_mut().event(&event, &running.get(), category.get());
        self.allocator.borrow_mut().listen(Box::new(listener));
        self.watcher.replace(Some(watcher));
    }

    /// Says what runs from now on.
    pub fn begin(&self, running: Running) {
        self.running.set(running);
    }

    /// What runs.
    #[must_use]
    pub fn running(&self) -> Running {
        self.running.get()
    }

    /// A storage of at least `bytes`; 0 take nothing.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn allocate(self: &Rc<Self>, bytes: u64, category: Category) -> Result<Storage, OutOfMemory> {
        self.category.set(category);
        let block = self.allocator.borrow_mut().malloc(bytes);
        let block = block.inspect_err(|failure| self.ran_out(failure, category))?;
        self.update(|c| c[category] += block.bytes());
        Ok(Storage::new(block, category, Rc::clone(self)))
    }

    pub(super) fn free(&self, block: Block, category: Category) {
        self.update(|c| c[category] -= block.bytes());
        self.allocator.borrow_mut().free(block);
    }

    #[cold]
    fn ran_out(&self, failure: &OutOfMemory, category: Category) {
        self.at_failure.set((self.categories.get(), failure.allocated));
        if let Some(watcher) = &*self.watcher.borrow() {
            watcher.borrow_mut().ran_out(failure, &self.running.get(), category, &self.allocator.borrow(), &self.past_peaks.get());
        }
    }

    pub(super) fn recount(&self, address: u64, bytes: u64, from: Category, to: Category) {
        if let Some(watcher) = &*self.watcher.borrow() {
            watcher.borrow_mut().becomes(address, to, &self.running.get());
        }
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
        self.at_failure.get().0
    }

    /// Bytes of blocks in use at that moment.
    #[must_use]
    pub fn allocated_at_failure(&self) -> u64 {
        self.at_failure.get().1
    }

    /// Memory has run out, and what the failing operator held is gone: this is the moment that a report tells of, since a script that
    /// catches PyTorch's exception sees no earlier one.
    pub fn settle_failure(&self) {
        self.at_failure.set((self.categories.get(), self.allocator.borrow().allocated()));
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
        if let Some(watcher) = &*self.watcher.borrow() {
            watcher.borrow_mut().empties_cache();
        }
        self.allocator.borrow_mut().empty_cache();
    }

    /// Every peak falls to what is current.
    pub fn reset_peaks(&self) {
        let mut allocator = self.allocator.borrow_mut();
        self.past_peaks.set(allocator.stats().with_peaks(&self.past_peaks.get()));
        allocator.reset_peaks();
    }

    /// All statistics, as if no peak had been reset.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.allocator.borrow().stats().with_peaks(&self.past_peaks.get())
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("categories", &self.categories.get()).finish_non_exhaustive()
    }
}
