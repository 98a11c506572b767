//! The host device by itself: memory that is lent, views of it, and the vocabulary of computations over them.

mod arena;
mod philox;
mod views;
mod vocabulary;

use std::cell::Cell;

use runner::alloc::{Backing, Placement};
use runner::device::Operand;
use runner::device::host::{Host, HostBacking};
use runner::meta::bytes::MIB;
use runner::meta::{DType, Shape, TensorMeta};

/// A segment from which tensors are taken one after another.
pub(crate) struct Segment {
    pub(crate) host: Host,
    _backing: HostBacking<Placement>,
    next: Cell<u64>,
}

/// A tensor in a segment.
pub(crate) struct Placed {
    pub(crate) address: u64,
    pub(crate) meta: TensorMeta,
}

impl Placed {
    pub(crate) fn operand(&self) -> Operand<'_> {
        Operand { address: self.address, meta: &self.meta }
    }
}

impl Segment {
    pub(crate) fn new() -> Self {
        let mut backing = HostBacking::new(Placement::new(1 << 40));
        let address = backing.allocate(64 * MIB).unwrap();
        Self { host: Host::new(backing.arena()), _backing: backing, next: Cell::new(address) }
    }

    pub(crate) fn empty(&self, dims: &[u64], dtype: DType) -> Placed {
        let meta = TensorMeta::contiguous(Shape::new(dims).unwrap(), dtype);
        let address = self.next.get();
        self.next.set((address + meta.bytes()).next_multiple_of(512));
        Placed { address, meta }
    }

    /// Numbers between -1 and 1 that every element type holds exactly.
    pub(crate) fn filled(&self, dims: &[u64], dtype: DType, salt: usize) -> (Placed, Vec<f64>) {
        let tensor = self.empty(dims, dtype);
        let elements = usize::try_from(tensor.meta.numel()).unwrap();
        let values: Vec<f64> = (0..elements).map(|i| ((i * 37 + salt * 11) % 65) as f64 / 32.0 - 1.0).collect();
        self.host.store(tensor.operand(), &values);
        (tensor, values)
    }

    pub(crate) fn values(&self, of: &Placed) -> Vec<f64> {
        self.host.values(of.operand())
    }
}
