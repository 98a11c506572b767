//! Descriptors of cuDNN's graph interface (`cudnnBackend…`): made, given attributes one by one, finalized, and from then on read only.
//! From a finished graph, what the heuristics know to compute it with, and plans made of that.
//!
//! Invariant: a descriptor is destroyed after those that refer to it; whoever keeps one keeps what it was made of.

use std::ffi::c_void;

use super::bindings::cudnn::{
    self as sys, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnBackendHeurMode_t, cudnnDataType_t,
};

use super::dnn::status;
use super::error::CudaError;

/// A descriptor of its own.
#[derive(Debug)]
pub(super) struct Descriptor(cudnnBackendDescriptor_t);

impl Descriptor {
    /// An empty one.
    pub(super) fn new(kind: cudnnBackendDescriptorType_t) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` takes the descriptor.
        status("cudnnBackendCreateDescriptor", unsafe { sys::cudnnBackendCreateDescriptor(kind, &raw mut raw) })?;
        Ok(Self(raw))
    }

    /// The library's pointer, for as long as this lives.
    const fn raw(&self) -> cudnnBackendDescriptor_t {
        self.0
    }

    /// Gives it an attribute of several values, of the type that `kind` names.
    pub(super) fn set<T: Copy>(&self, name: Name, kind: Type, values: &[T]) -> Result<(), CudaError> {
        // SAFETY: the descriptor lives; there are as many values as said, of the type that the caller names beside the attribute, and the
        // library copies them.
        status("cudnnBackendSetAttribute", unsafe {
            sys::cudnnBackendSetAttribute(self.0, name, kind, values.len() as i64, values.as_ptr().cast::<c_void>())
        })
        .map_err(|e| e.within(&format!("{name:?}")))
    }

    /// Gives it other descriptors as an attribute.
    pub(super) fn refer(&self, name: Name, to: &[&Self]) -> Result<(), CudaError> {
        let raw: Vec<cudnnBackendDescriptor_t> = to.iter().map(|d| d.0).collect();
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw)
    }

    /// Ends its making.
    pub(super) fn finalize(self) -> Result<Self, CudaError> {
        // SAFETY: the descriptor lives.
        status("cudnnBackendFinalize", unsafe { sys::cudnnBackendFinalize(self.0) })?;
        Ok(self)
    }

    /// Reads at most as many values as `out` holds, and says how many there are.
    fn read<T: Copy>(&self, name: Name, kind: Type, out: &mut [T]) -> Result<usize, CudaError> {
        let mut count = 0;
        // Without a place to write to, the library says how many there are; with an empty one, that it wrote none.
        let to = if out.is_empty() { std::ptr::null_mut() } else { out.as_mut_ptr().cast::<c_void>() };
        // SAFETY: the descriptor lives; `out` has room for as many values as are asked for, of the type that the caller names beside the
        // attribute.
        status("cudnnBackendGetAttribute", unsafe {
            sys::cudnnBackendGetAttribute(self.0, name, kind, out.len() as i64, &raw mut count, to)
        })
        .map_err(|e| e.within(&format!("{name:?}")))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// A single number.
    pub(super) fn number(&self, name: Name) -> Result<i64, CudaError> {
        let mut value = [0i64];
        self.read(name, Type::CUDNN_TYPE_INT64, &mut value)?;
        Ok(value[0])
    }

    /// Up to `N` values.
    pub(super) fn values<T: Copy, const N: usize>(&self, name: Name, kind: Type, empty: T) -> Result<Vec<T>, CudaError> {
        let mut values = [empty; N];
        let count = self.read(name, kind, &mut values)?;
        Ok(values[..count.min(N)].to_vec())
    }

    /// The descriptor that an attribute holds, as one of that kind.
    pub(super) fn referred_one(&self, name: Name, kind: cudnnBackendDescriptorType_t) -> Result<Self, CudaError> {
        let descriptor = Self::new(kind)?;
        // The library fills in the one that it is given.
        self.read(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut [descriptor.0])?;
        Ok(descriptor)
    }

    /// The descriptors that an attribute holds, at most `most`: for attributes whose number the library does not tell.
    pub(super) fn referred_up_to(&self, name: Name, kind: cudnnBackendDescriptorType_t, most: usize) -> Result<Vec<Self>, CudaError> {
        let mut descriptors = (0..most).map(|_| Self::new(kind)).collect::<Result<Vec<_>, _>>()?;
        let mut raw: Vec<cudnnBackendDescriptor_t> = descriptors.iter().map(|d| d.0).collect();
        // The library fills in those that it is given.
        let given = self.read(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut raw)?;
        descriptors.truncate(given);
        Ok(descriptors)
    }

    /// The descriptors that an attribute holds, as descriptors of that kind.
    pub(super) fn referred(&self, name: Name, kind: cudnnBackendDescriptorType_t) -> Result<Vec<Self>, CudaError> {
        let mut none: [cudnnBackendDescriptor_t; 0] = [];
        let count = self.read(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut none)?;
        self.referred_up_to(name, kind, count)
    }
}

/// Descriptors in the order in which they were made, so that each refers to earlier ones only. They go in the opposite order.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<Descriptor>);

impl Parts {
    /// Takes one more, and gives its place.
    pub(super) fn push(&mut self, part: Descriptor) -> usize {
        self.0.push(part);
        self.0.len() - 1
    }

    /// The one made last.
    pub(super) fn last(&self) -> &Descriptor {
        self.0.last().expect("something was made")
    }
}

impl std::ops::Index<usize> for Parts {
    type Output = Descriptor;

    fn index(&self, place: usize) -> &Descriptor {
        &self.0[place]
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by `cudnnBackendCreateDescriptor`, used no more. An answer has nobody to go to.
        let _ = unsafe { sys::cudnnBackendDestroyDescriptor(self.0) };
    }
}

/// The alignment that is promised of tensors, in bytes: that of a tensor which begins a block of PyTorch's allocator is never less.
pub(super) const ALIGNMENT: u64 = 16;

/// A tensor in memory, not finalized yet.
pub(super) fn tensor(kind: cudnnDataType_t, dims: [u64; 4], strides: [u64; 4], name: i64) -> Result<Descriptor, CudaError> {
    let tensor = Descriptor::new(cudnnBackendDescriptorType_t::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[kind])?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &dims.map(u64::cast_signed))?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, &strides.map(u64::cast_signed))?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[name])?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[ALIGNMENT.cast_signed()])?;
    Ok(tensor)
}

/// Strides of rows one after another.
pub(super) const fn contiguous([_, b, c, d]: [u64; 4]) -> [u64; 4] {
    [b * c * d, c * d, d, 1]
}

/// The graph of these operations.
pub(super) fn graph(handle: sys::cudnnHandle_t, operations: &[&Descriptor]) -> Result<Descriptor, CudaError> {
    let graph = Descriptor::new(cudnnBackendDescriptorType_t::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
    graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle])?;
    graph.refer(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)?;
    graph.finalize()
}

/// What the heuristics of a mode name for a graph, best first, after the descriptor that all of it refers to.
pub(super) fn configurations(graph: &Descriptor, mode: cudnnBackendHeurMode_t) -> Result<(Descriptor, Vec<Descriptor>), CudaError> {
    let heuristics = Descriptor::new(cudnnBackendDescriptorType_t::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    heuristics.refer(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    heuristics.set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[mode])?;
    let heuristics = heuristics.finalize()?;
    let kind = cudnnBackendDescriptorType_t::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    let configurations = heuristics.referred(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, kind)?;
    Ok((heuristics, configurations))
}

/// A graph that can be run. It refers to the configuration that it was made of.
#[derive(Debug)]
pub(super) struct Plan {
    plan: Descriptor,
    /// What it works in, in bytes.
    pub(super) workspace: u64,
}

impl Plan {
    /// Builds it.
    pub(super) fn of(handle: sys::cudnnHandle_t, configuration: &Descriptor) -> Result<Self, CudaError> {
        let plan = Descriptor::new(cudnnBackendDescriptorType_t::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle])?;
        plan.refer(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration])?;
        let plan = plan.finalize()?;
        let workspace = plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        Ok(Self { plan, workspace: u64::try_from(workspace).unwrap_or(0) })
    }

    /// Runs it on the tensors of those names, at `pointers`: live blocks of the plan's shapes, or numbers on the host. At `workspace` there
    /// is as much room as the plan asks for.
    pub(super) fn execute(
        &self,
        handle: sys::cudnnHandle_t,
        names: &[i64],
        pointers: &[*mut c_void],
        workspace: u64,
    ) -> Result<(), CudaError> {
        let pack = Descriptor::new(cudnnBackendDescriptorType_t::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, names)?;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, pointers)?;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::CUDNN_TYPE_VOID_PTR, &[workspace as *mut c_void])?;
        let pack = pack.finalize()?;
        // SAFETY: handle and plan live; tensors and workspace are as the caller promises.
        status("cudnnBackendExecute", unsafe { sys::cudnnBackendExecute(handle, self.plan.raw(), pack.raw()) })
    }
}
