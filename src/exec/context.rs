//! [`Exec`]: one device, its allocator, and the thread that runs on it.

use std::rc::Rc;

use super::Result;
use super::random::Generator;
use super::workspace::Workspaces;
use crate::device::Device;
use crate::device::cuda::Cuda;
use crate::device::host::Host;
use crate::gpu::Gpu;
use crate::meta::TensorMeta;
use crate::record::Category;
use crate::scratch::{Request, Rules, Scratch};
use crate::tensor::{Memory, Storage, Tensor};

/// Where operators run.
#[derive(Debug)]
pub struct Exec {
    gpu: Gpu,
    device: Device,
    pub(super) workspaces: Workspaces,
    generator: Generator,
    memory: Rc<Memory>,
    scratch: Rc<dyn Scratch>,
}

impl Exec {
    /// A device whose memory comes from `memory` and whose size-dependent choices are those of `gpu`.
    #[must_use]
    pub fn new(gpu: Gpu, device: Device, memory: Rc<Memory>) -> Self {
        Self { gpu, device, workspaces: Workspaces::default(), generator: Generator::default(), memory, scratch: Rc::new(Rules) }
    }

    /// The same with another source of what libraries ask for.
    #[must_use]
    pub fn with_scratch(self, scratch: Rc<dyn Scratch>) -> Self {
        Self { scratch, ..self }
    }

    /// What a library asks for, in bytes.
    #[must_use]
    pub fn asked(&self, request: &Request) -> u64 {
        self.scratch.bytes(&self.gpu, request)
    }

    /// The GPU that is run on or stood in for.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// What computes.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Runs `compute` if the host computes. Whatever is allocated is allocated around it, on every device alike.
    pub fn on_host(&self, compute: impl FnOnce(&Host)) {
        match &self.device {
            Device::Host(host) => compute(host),
            Device::Cuda(_) | Device::Virtual => {}
        }
    }

    /// Runs `launch` if a GPU computes.
    pub fn on_cuda(&self, launch: impl FnOnce(&Cuda)) {
        match &self.device {
            Device::Cuda(cuda) => launch(cuda),
            Device::Host(_) | Device::Virtual => {}
        }
    }

    /// Whether tensors have values.
    #[must_use]
    pub fn computes(&self) -> bool {
        match &self.device {
            Device::Cuda(cuda) => !cuda.rehearses(),
            Device::Host(_) => true,
            Device::Virtual => false,
        }
    }

    /// Where random numbers come from.
    #[must_use]
    pub fn generator(&self) -> &Generator {
        &self.generator
    }

    /// The allocator and its account.
    #[must_use]
    pub fn memory(&self) -> &Rc<Memory> {
        &self.memory
    }

    /// A new tensor, in the role that what runs gives to new ones.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty(&self, meta: impl Into<Rc<TensorMeta>>) -> Result<Tensor> {
        self.empty_as(meta, self.memory.running().pass.role())
    }

    /// A new tensor of a given role.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty_as(&self, meta: impl Into<Rc<TensorMeta>>, category: Category) -> Result<Tensor> {
        let mut meta = meta.into();
        if !meta.is_contiguous() && !meta.is_dense() {
            meta = Rc::new(meta.dense()); // what is laid out as a view with gaps is made without them
        }
        let storage = self.memory.allocate(meta.bytes(), category)?;
        Ok(Tensor::new(meta, storage))
    }

    /// A new contiguous tensor of the same shape and type.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty_like(&self, like: &Tensor) -> Result<Tensor> {
        self.empty(contiguous_meta(like))
    }

    /// A new tensor of the same shape and type without gaps, its dimensions in the order of the original's.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty_dense(&self, like: &Tensor) -> Result<Tensor> {
        self.empty(if like.meta().is_dense() { like.shared_meta() } else { Rc::new(like.meta().dense()) })
    }

    /// Bytes that live no longer than the operator that asks for them.
    ///
    /// # Errors
    /// Out of memory.
    pub fn scratch(&self, bytes: u64) -> Result<Storage> {
        self.memory.allocate(bytes, Category::Workspace)
    }
}

/// The contiguous layout of a tensor's shape; shared where the tensor already has it.
pub(super) fn contiguous_meta(t: &Tensor) -> Rc<TensorMeta> {
    if t.meta().is_contiguous() { t.shared_meta() } else { Rc::new(t.meta().like()) }
}
