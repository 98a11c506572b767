//! What a GPU held besides the allocator's memory: figures of a machine, not of an experiment. Never part of the CSV.

use serde::{Deserialize, Serialize};

/// Bytes on the GPU at the end of a case, and where they went.
///
/// `used = before_context + context + libraries + loaded + reserved + remainder`. What other processes took before a case's first step was
/// done is in `loaded`; what they took or gave back later is in the remainder, and so is what libraries loaded later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// Held by all processes, as the driver counts.
    pub used: u64,
    /// Held before this process made its context; 0 where NVML does not say.
    pub before_context: u64,
    /// What making the context took.
    pub context: u64,
    /// What making libraries' handles and loading kernels took.
    pub libraries: u64,
    /// What the GPU held more than all of this at the end of the first step: kernels that libraries load by themselves when they first
    /// launch them.
    #[serde(default)]
    pub loaded: u64,
    /// `torch.cuda.memory_reserved()`.
    pub reserved: u64,
    /// What is left over.
    pub remainder: i64,
    /// Held by this process right after its context was made, as NVML counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_after_context: Option<u64>,
    /// Held by this process now, as NVML counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u64>,
}
