//! What a GPU holds besides the allocator's memory, as the driver and NVML count it. These figures belong to a machine, not to an
//! experiment.

use crate::device::cuda::{Cuda, CudaError};
use crate::record::DeviceMemory;
use crate::tensor::Memory;

/// Libraries load kernels by themselves when they first launch them: to be called once a case has launched what it does.
pub fn count_loaded(cuda: &Cuda, memory: &Memory) {
    cuda.count_loaded(memory.allocator().reserved());
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
    let (libraries, loaded, reserved) = (cuda.libraries(), cuda.loaded(), memory.allocator().reserved());
    let explained = before_context + context + libraries + loaded + reserved;
    Ok(DeviceMemory {
        used: usage.device,
        before_context,
        context,
        libraries,
        loaded,
        reserved,
        remainder: usage.device.cast_signed() - explained.cast_signed(),
        process_after_context: start.process_after_context,
        process: usage.process,
    })
}
