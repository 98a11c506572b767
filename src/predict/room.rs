//! Whether work fits into so many bytes of reserved memory, and by how much, or how much is lacking.
//!
//! Both are asked of the predictor: under the limit itself, where cached memory is given back before anything fails, and without one.

use super::predict;
use crate::alloc::AllocatorConfig;
use crate::gpu::Gpu;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::record::{Predicted, Status};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the allocator may reserve.
    pub limit: u64,
    /// Whether the work runs to its end within them.
    pub fits: bool,
    /// The most bytes reserved at once: within the limit where it fits, without one where it does not.
    pub reserved: u64,
    /// The most bytes allocated at once, likewise.
    pub peak: u64,
}

/// More memory than any GPU has, and little enough that addresses last.
const ROOMY: u64 = 1 << 42;

/// A GPU that behaves like `gpu` and has memory for all that it is asked for.
#[must_use]
pub fn roomy(gpu: &Gpu) -> Gpu {
    Gpu { total_memory: ROOMY, ..gpu.clone() }
}

/// Whether `work` runs in `limit` bytes of reserved memory, or in the configuration's own limit where that is lower.
#[must_use]
pub fn room<'a>(work: &Work, cx: impl Into<RuleContext<'a>>, config: &AllocatorConfig, limit: u64) -> Room {
    let cx = cx.into();
    let limit = config.limit(cx.gpu.total_memory).map_or(limit, |own| own.min(limit));
    let gpu = roomy(cx.gpu);
    let cx = RuleContext { gpu: &gpu, ..cx };
    let limited = predict(work, cx, config.with_limit(Some(limit)));
    let fits = ends_well(&limited);
    let rows = if fits { limited } else { predict(work, cx, config.with_limit(None)) };
    let (peak, reserved) = most(&rows);
    Room { limit, fits, reserved, peak }
}

/// Whether no row is one of memory that ran out.
#[must_use]
pub fn ends_well(rows: &[Predicted]) -> bool {
    rows.iter().all(|r| r.status == Status::Ok)
}

/// The most bytes allocated and reserved at once.
#[must_use]
pub fn most(rows: &[Predicted]) -> (u64, u64) {
    rows.iter().fold((0, 0), |(peak, reserved), r| (peak.max(r.memory.peak), reserved.max(r.memory.reserved)))
}
