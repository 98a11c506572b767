//! Tensors over storages that the allocator hands out and gets back.
//!
//! Reading order: `memory` (the allocator as tensors share it), `storage` (a block and its role), `handle` (the tensor), `reshape`.
//! Invariant: a storage is given back when the last tensor over it goes, at that moment and not later.

mod handle;
mod memory;
mod reshape;
mod storage;

pub use handle::Tensor;
pub use memory::{Memory, SharedWatcher, Watcher};
pub use storage::Storage;
