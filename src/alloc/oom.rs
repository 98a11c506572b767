//! Running out of memory: the figures PyTorch reports, and its message, word for word.

use crate::meta::bytes::{GIB, KIB, MIB};

/// No memory for a request, after everything cached was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message(0))]
pub struct OutOfMemory {
    /// What the client asked for.
    pub requested: u64,
    /// The segment that could not be had; `None` if the request was refused outright, being 2^60 bytes or more.
    pub segment: Option<u64>,
    /// All memory of the device.
    pub total: u64,
    /// What is free of it.
    pub free: u64,
    /// What this process has taken of it, where that can be told.
    pub process: Option<u64>,
    /// The allocator's limit.
    pub limit: Option<u64>,
    /// Bytes of blocks that clients hold.
    pub allocated: u64,
    /// Bytes of segments.
    pub reserved: u64,
    /// Whether it is not the device's memory that ended, but that of the machine which stands in for it.
    pub machine_is_full: bool,
}

impl OutOfMemory {
    /// PyTorch's message, for the GPU of that number.
    #[must_use]
    pub fn message(&self, device: u32) -> String {
        let Some(segment) = self.segment else {
            return "CUDA out of memory. Tried to allocate more than 1EB memory.".to_owned();
        };
        let process = self
            .process
            .map(|p| format!("Including non-PyTorch memory, this process has {} memory in use. ", figure(p)))
            .unwrap_or_default();
        let limit = self.limit.map(|l| format!("{} allowed; ", figure(l))).unwrap_or_default();
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {device} has a total capacity of {} of which {} is free. {process}{limit}\
             Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated. \
             If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid \
             fragmentation.  See documentation for Memory Management  \
             (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
            figure(segment),
            figure(self.total),
            figure(self.free),
            figure(self.allocated),
            figure(self.reserved - self.allocated),
        )
    }
}

/// A size as PyTorch prints it: the unit changes just above a power of 1024, so 2^20 is `1024.00 KiB`.
#[allow(clippy::cast_precision_loss)]
fn figure(bytes: u64) -> String {
    let (unit, name) = match bytes {
        ..=KIB => return format!("{bytes} bytes"),
        _ if bytes <= MIB => (KIB, "KiB"),
        _ if bytes <= GIB => (MIB, "MiB"),
        _ => (GIB, "GiB"),
    };
    format!("{:.2} {name}", bytes as f64 / unit as f64)
}
