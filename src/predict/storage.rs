//! Storages: blocks of the predictor's own allocator with the number of their holders. It decides nothing about who holds what.
//!
//! Invariant: a storage is freed when its last holder lets go, at that moment and not later.

use super::foreseen::Foreseen;
use super::listener::{Happening, Listener, Origin, Pass};
use super::slab::Slab;
use crate::alloc::{Allocator, AllocatorConfig, Block, Placement};
use crate::gpu::Gpu;
use crate::model::LayerId;
use crate::ops::{Library, Slot};
use crate::record::{At, Category, Memory, Predicted, Status};

/// A storage, by number.
pub(super) type Id = u32;
/// No storage.
pub(super) const NONE: Id = Id::MAX;

/// Memory has run out; the allocator's figures are as the failure left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutOfMemory;

/// The result of whatever may allocate.
pub(super) type Attempt<T = ()> = Result<T, OutOfMemory>;

#[derive(Debug)]
struct Entry {
    block: Block,
    holders: u32,
}

/// All storages, and the allocator below them.
pub(super) struct Storages<'l> {
    allocator: Allocator,
    entries: Slab<Entry>,
    listener: Option<&'l mut dyn Listener>,
    /// What is running, for the listener.
    origin: Origin,
    pub(super) rows: Foreseen,
}

impl<'l> Storages<'l> {
    /// Nothing yet, on a device that is all free.
    pub(super) fn new(gpu: &Gpu, config: AllocatorConfig, listener: Option<&'l mut dyn Listener>) -> Self {
        let total = config.stand_in_memory(gpu.total_memory);
        let origin = Origin { pass: Pass::Copy, layer: None, operator: "", slot: None, library: None, category: Category::Other };
        Self {
            allocator: Allocator::new(config, Box::new(Placement::new(total))),
            entries: Slab::default(),
            listener,
            origin,
            rows: Foreseen::default(),
        }
    }

    /// What runs from now on.
    pub(super) fn begin(&mut self, pass: Pass, layer: Option<LayerId>, operator: &'static str) {
        self.begin_as(pass, layer, operator, pass.role());
    }

    /// What runs from now on, and the role of what it makes.
    pub(super) fn begin_as(&mut self, pass: Pass, layer: Option<LayerId>, operator: &'static str, category: Category) {
        self.origin = Origin { pass, layer, operator, slot: None, library: None, category };
    }

    /// A storage with one holder.
    pub(super) fn alloc(&mut self, bytes: u64) -> Attempt<Id> {
        self.alloc_as(bytes, |_| {})
    }

    /// A slot of the running operator's recipe.
    pub(super) fn alloc_slot(&mut self, bytes: u64, slot: Slot) -> Attempt<Id> {
        self.alloc_as(bytes, |origin| origin.slot = Some(slot))
    }

    /// A library's workspace, asked for by the running operator.
    pub(super) fn alloc_workspace(&mut self, bytes: u64, library: Library) -> Attempt<Id> {
        self.alloc_as(bytes, |origin| {
            origin.library = Some(library);
            origin.category = Category::Workspace;
        })
    }

    #[inline]
    fn alloc_as(&mut self, bytes: u64, note: impl FnOnce(&mut Origin)) -> Attempt<Id> {
        let block = self.allocator.malloc(bytes).map_err(|failure| {
            if let Some(listener) = &mut self.listener {
                listener.hear(&Happening::RanOut(failure));
            }
            OutOfMemory
        })?;
        let counted = block.bytes();
        let entry = Entry { block, holders: 1 };
        let id = self.entries.insert(entry);
        if let Some(listener) = &mut self.listener {
            let mut origin = self.origin;
            note(&mut origin);
            listener.hear(&Happening::Allocated { storage: id, requested: bytes, bytes: counted, origin });
        }
        Ok(id)
    }

    /// One more holder.
    #[inline]
    pub(super) fn hold(&mut self, id: Id) -> Id {
        self.entries[id].holders += 1;
        id
    }

    /// One holder fewer; the last one frees it.
    #[inline]
    pub(super) fn release(&mut self, id: Id) {
        let entry = &mut self.entries[id];
        entry.holders -= 1;
        if entry.holders > 0 {
            return;
        }
        let block = std::mem::replace(&mut entry.block, Block::NULL);
        self.allocator.free(block);
        self.entries.vacate(id);
        if let Some(listener) = &mut self.listener {
            listener.hear(&Happening::Freed { storage: id });
        }
    }

    /// A Python variable lets go of what it holds, if anything.
    pub(super) fn clear(&mut self, variable: &mut Id) {
        let id = std::mem::replace(variable, NONE);
        if id != NONE {
            self.release(id);
        }
    }

    /// Whether there is no second holder.
    #[inline]
    pub(super) fn is_unique(&self, id: Id) -> bool {
        self.entries[id].holders == 1
    }

    /// A storage plays another role from now on.
    pub(super) fn becomes(&mut self, id: Id, category: Category) {
        if let Some(listener) = &mut self.listener {
            listener.hear(&Happening::Becomes { storage: id, category });
        }
    }

    /// `torch.cuda.empty_cache()`.
    pub(super) fn empty_cache(&mut self) {
        self.allocator.empty_cache();
    }

    /// A phase has ended, or memory ran out in it.
    pub(super) fn row(&mut self, at: At, status: Status) {
        let memory = Memory { allocated: self.allocator.allocated(), peak: self.allocator.peak(), reserved: self.allocator.reserved() };
        self.allocator.reset_peaks();
        let row = Predicted { at, memory, status };
        self.rows.push(row);
        if let Some(listener) = &mut self.listener {
            listener.hear(&Happening::Row(row));
        }
    }

    /// The rows.
    pub(super) fn finish(self) -> Foreseen {
        self.rows
    }

    /// The allocator's, where it has one.
    pub(super) fn portrait(&self) -> Option<Vec<u64>> {
        self.allocator.portrait()
    }

    /// Where a storage lies, how large it is, and how many hold it.
    pub(super) fn look(&self, id: Id) -> [u64; 3] {
        let Entry { block, holders } = &self.entries[id];
        [block.address(), block.bytes(), (*holders).into()]
    }
}
