//! What a GPU holds besides the allocator's memory, as the driver and NVML count it. These figures belong to a machine, not to an experiment.

use crate::device::cuda::{Cuda, CudaError};
use crate::tensor::Memory;

/// Bytes on the GPU at the end of a case, and where they went.
///
/// `used = before_context + context + libraries + reserved + remainder`. Whatever kernels libraries load by themselves is in the remainder, and so
/// is what other processes took or gave back meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Held by all processes, as the driver counts.
    pub used: u64,
    /// Held before this process made its context; 0 where NVML does not say.
    pub before_context: u64,
    /// What making the context took.
    pub context: u64,
    /// What making libraries' handles and loading kernels took.
    pub libraries: u64,
    /// `torch.cuda.memory_reserved()`.
    pub reserved: u64,
    /// What is left over.
    pub remainder: i64,
    /// Held by this process right after its context was made, as NVML counts.
    pub process_after_context: Option<u64>,
    /// Held by this process now, as NVML counts.
    pub process: Option<u64>,
}

/// Reads it, at the end of a case.
///
/// # Errors
/// The GPU has failed.
pub fn device_memory(cuda: &Cuda, memory: &Memory) -> Result<DeviceMemory, CudaError> {
    cuda.synchronize()?;
    let (usage, start) = (cuda.usage()?, cuda.start());
    let before_context = start.before_context.unwrap_or(0);
    let context = start.after_context.saturating_sub(before_context);
    let (libraries, reserved) = (cuda.libraries(), memory.allocator().reserved());
    let explained = before_context + context + libraries + reserved;
    Ok(DeviceMemory {
        used: usage.device,
        before_context,
        context,
        libraries,
        reserved,
        remainder: usage.device.cast_signed() - explained.cast_signed(),
        process_after_context: start.process_after_context,
        process: usage.process,
    })
}
