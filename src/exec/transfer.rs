//! Bytes between the program's own memory and a device, without waiting where a device can go on by itself.

use super::{Exec, cuda};
use crate::device::Device;
use crate::device::cuda::{Pending, Pinned};
use crate::device::host::Encoded;
use crate::meta::DType;
use crate::tensor::Tensor;

/// Elements to be uploaded, once or again and again.
#[derive(Debug)]
pub struct Staged(pub(super) Elements);

#[derive(Debug)]
pub(super) enum Elements {
    Own(Encoded),
    Pinned(Pinned),
}

/// A scalar that is being read.
#[derive(Debug, Clone, Copy)]
pub struct Later(Value);

#[derive(Debug, Clone, Copy)]
enum Value {
    /// There already, or never: nothing computes it.
    Known(Option<f64>),
    OnItsWay(Pending, DType),
}

impl Exec {
    /// Makes elements ready to be uploaded.
    #[must_use]
    pub fn stage(&self, elements: Encoded) -> Staged {
        match self.device() {
            Device::Cuda(gpu) => Staged(Elements::Pinned(gpu.pinned(elements.bytes()))),
            Device::Host(_) | Device::Virtual => Staged(Elements::Own(elements)),
        }
    }

    /// Overwrites a contiguous tensor with elements as they are stored. They have been read when this returns.
    pub fn upload(&self, bytes: &[u8], to: &Tensor) {
        self.on_host(|host| host.upload(to.operand(), bytes));
        self.on_cuda(|gpu| gpu.upload(to.operand().address, bytes));
    }

    /// A contiguous tensor's bytes as they are stored, once all earlier work is done; zeros after a failure of the device.
    #[must_use]
    pub fn download(&self, t: &Tensor) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(t.meta().bytes()).expect("the host addresses what it copies")];
        self.on_host(|host| host.download(t.operand(), &mut bytes));
        // A failure is kept, and told at the end.
        self.on_cuda(|gpu| drop(gpu.download(t.operand().address, &mut bytes)));
        bytes
    }

    /// `t.item()`: the value of a scalar; `None` where nothing computes one.
    #[must_use]
    pub fn item(&self, t: &Tensor) -> Option<f64> {
        self.values(t).pop()
    }

    /// A contiguous tensor's values in order, once all earlier work is done; none where nothing computes them.
    #[must_use]
    pub fn values(&self, t: &Tensor) -> Vec<f64> {
        let mut values = Vec::new();
        self.on_host(|host| values = host.values(t.operand()));
        self.on_cuda(|gpu| values = cuda::values(gpu, t.operand()));
        values
    }

    /// The value that a scalar has now, to be asked for after [`wait`](Self::wait).
    #[must_use]
    pub fn item_later(&self, t: &Tensor) -> Later {
        match self.device() {
            Device::Cuda(gpu) => Later(Value::OnItsWay(gpu.read_later(t.operand().address, t.dtype().bytes()), t.dtype())),
            Device::Host(_) | Device::Virtual => Later(Value::Known(self.item(t))),
        }
    }

    /// The value, once waited for; `None` where nothing computes one.
    #[must_use]
    pub fn value(&self, later: Later) -> Option<f64> {
        match later.0 {
            Value::Known(value) => value,
            Value::OnItsWay(pending, dtype) => {
                let mut value = None;
                self.on_cuda(|gpu| value = cuda::decode(&gpu.value(pending), dtype).next());
                value
            }
        }
    }

    /// Whether the device has failed: what is read from it means nothing then.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let mut failed = false;
        self.on_cuda(|gpu| failed = gpu.check().is_err());
        failed
    }

    /// Waits until everything asked for is done.
    pub fn wait(&self) {
        // A failure is kept, and told at the end.
        self.on_cuda(|gpu| drop(gpu.synchronize()));
    }
}
