//! Workspaces that libraries keep: one a library and thread, taken from the caching allocator at the first use (which is after the
//! output of that first operator was allocated) and kept until the end.

use std::cell::{Cell, RefCell};

use super::cuda::Libraries;
use super::{Exec, Result};
use crate::device::cuda;
use crate::gpu::Gpu;
use crate::meta::bytes::{KIB, MIB};
use crate::record::Category;
use crate::tensor::Storage;

/// The threads of a training program. Libraries keep handles, and with them workspaces, for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thread {
    /// Python's: forward passes and the optimizer.
    #[default]
    Forward,
    /// Autograd's thread of the device: backward passes, recomputation among them.
    Backward,
}

/// Which library's workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    /// cuBLAS: every matrix product.
    Cublas,
    /// cuBLASLt: products with a bias epilogue.
    CublasLt,
}

impl Workspace {
    /// PyTorch's default sizes (`CublasHandlePool.cpp`), in bytes; cuBLAS's before Hopper is what `CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8` asks
    /// for.
    fn bytes(self, gpu: &Gpu) -> u64 {
        match self {
            Self::Cublas if gpu.capability == (9, 0) => 32 * MIB,
            Self::Cublas => 8320 * KIB,
            Self::CublasLt => MIB,
        }
    }
}

/// The workspaces taken so far, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Workspaces {
    thread: Cell<Thread>,
    taken: RefCell<[[Option<Storage>; 2]; 2]>,
}

impl Exec {
    /// Runs `work` as `thread`.
    pub fn on_thread<T>(&self, thread: Thread, work: impl FnOnce() -> T) -> T {
        let before = self.workspaces.thread.replace(thread);
        let value = work();
        self.workspaces.thread.set(before);
        value
    }

    /// The running thread's handle, as GPU code needs it.
    pub(super) fn library(&self) -> Libraries {
        let thread = self.workspaces.thread.get();
        let taken = &self.workspaces.taken.borrow()[thread as usize][Workspace::Cublas as usize];
        let cublas = taken.as_ref().map_or(cuda::Workspace { address: 0, bytes: 0 }, |s| cuda::Workspace {
            address: s.address(),
            bytes: Workspace::Cublas.bytes(self.gpu()),
        });
        let pass = match thread {
            Thread::Forward => cuda::Pass::Forward,
            Thread::Backward => cuda::Pass::Backward,
        };
        Libraries { pass, cublas }
    }

    /// Makes sure that the running thread has that workspace. cuBLASLt's comes after cuBLAS's.
    ///
    /// # Errors
    /// Out of memory.
    pub fn workspace(&self, which: Workspace) -> Result<()> {
        if which == Workspace::CublasLt {
            self.workspace(Workspace::Cublas)?;
        }
        let place = |taken: &mut [[Option<Storage>; 2]; 2], storage| {
            taken[self.workspaces.thread.get() as usize][which as usize] = storage;
        };
        let missing = self.workspaces.taken.borrow()[self.workspaces.thread.get() as usize][which as usize].is_none();
        if missing {
            let storage = self.memory().allocate(which.bytes(self.gpu()), Category::Workspace)?;
            place(&mut self.workspaces.taken.borrow_mut(), Some(storage));
        }
        Ok(())
    }
}
