//! How batches get to a device: where a GPU computes, by way of page-locked memory, and ahead of the step that needs them on a stream of
//! their own. On the host a copy is a copy.
//!
//! Invariant: the device's work sees batches whole, whatever was copied when: [`room_is_taken`](Uploads::room_is_taken) comes between the
//! allocation and the copy ahead, [`arrive`](Uploads::arrive) between the copy and the work.

use super::Exec;
use super::transfer::{Elements, Staged};
use crate::device::Device;
use crate::device::cuda::{CopyStream, Staging};
use crate::tensor::Tensor;

/// The way.
#[derive(Debug)]
pub struct Uploads {
    /// Where bytes go through page-locked memory.
    staging: Option<Staging>,
    /// What copies ahead, where that goes on by itself.
    ahead: Option<CopyStream>,
}

/// When a batch is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// By the work that is asked for next.
    Now,
    /// After the work that is under way.
    Later,
}

impl Exec {
    /// A way for batches: through page-locked memory where `pinned`, with a stream of its own where some are copied `ahead`.
    #[must_use]
    pub fn uploads(&self, pinned: bool, ahead: bool) -> Uploads {
        match self.device() {
            Device::Cuda(gpu) => Uploads { staging: pinned.then(|| gpu.staging()), ahead: ahead.then(|| gpu.copy_stream()) },
            Device::Host(_) | Device::Virtual => Uploads { staging: None, ahead: None },
        }
    }
}

impl Uploads {
    /// Memory for a batch that is needed later was taken from the allocator: whatever used it before has been asked for by now.
    pub fn room_is_taken(&self) {
        if let Some(stream) = &self.ahead {
            stream.after_computing();
        }
    }

    /// Overwrites contiguous tensors with elements as they are stored. They have been read when this returns.
    pub fn upload(&mut self, exec: &Exec, parts: &[(&[u8], &Tensor)], needed: Needed) {
        exec.on_host(|host| parts.iter().for_each(|(bytes, to)| host.upload(to.operand(), bytes)));
        exec.on_cuda(|gpu| {
            let beside = self.ahead.as_ref().filter(|_| needed == Needed::Later);
            let parts = parts.iter().map(|(bytes, to)| (to.operand().address, *bytes));
            match (&mut self.staging, beside) {
                (Some(staging), beside) => staging.upload(&parts.collect::<Vec<_>>(), beside),
                (None, Some(beside)) => parts.for_each(|(to, bytes)| beside.upload(to, bytes)),
                (None, None) => parts.for_each(|(to, bytes)| gpu.upload(to, bytes)),
            }
        });
    }

    /// Overwrites a contiguous tensor with staged elements, without waiting.
    pub fn upload_staged(&self, exec: &Exec, elements: &Staged, to: &Tensor, needed: Needed) {
        let beside = self.ahead.as_ref().filter(|_| needed == Needed::Later);
        match &elements.0 {
            Elements::Own(elements) => exec.on_host(|host| host.upload(to.operand(), elements.bytes())),
            Elements::Pinned(elements) => exec.on_cuda(|gpu| gpu.upload_pinned(to.operand().address, elements, beside)),
        }
    }

    /// What was copied ahead is needed by the work that is asked for from now on.
    pub fn arrive(&self) {
        if let Some(stream) = &self.ahead {
            stream.before_computing();
        }
    }
}
