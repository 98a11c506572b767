//! Storages: a block of the allocator and its role, nothing else. Dropping one gives the block back.

use std::cell::Cell;
use std::rc::Rc;

use super::memory::Memory;
use crate::alloc::Block;
use crate::record::Category;

/// A block in use. Shapes are the tensors' business.
#[derive(Debug)]
pub struct Storage {
    block: Block,
    category: Cell<Category>,
    memory: Rc<Memory>,
}

impl Storage {
    pub(super) fn new(block: Block, category: Category, memory: Rc<Memory>) -> Self {
        Self { block, category: Cell::new(category), memory }
    }

    /// Where it is; 0 if it has no bytes.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.block.address()
    }

    /// Gives it another role.
    pub fn set_category(&self, category: Category) {
        self.memory.recount(self.block.address(), self.block.bytes(), self.category.replace(category), category);
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let block = std::mem::replace(&mut self.block, Block::NULL);
        self.memory.free(block, self.category.get());
    }
}
