//! Whether work fits into so many bytes of reserved memory, and by how much, or where it runs out.
//!
//! Both are asked of the predictor under the limit itself, where cached memory is given back before anything fails. How much is lacking
//! is not known: what an allocator without a limit reserves holds caches that one with a limit does without.

use super::{Foreseen, Happening, Listener, Pace, foresee, run};
use crate::alloc::{AllocatorConfig, OutOfMemory};
use crate::gpu::Gpu;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::record::{At, Predicted, Status};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the allocator may reserve.
    pub limit: u64,
    /// Where the work runs out of them; `None` where it runs to its end.
    pub shortage: Option<Shortage>,
    /// The most bytes reserved at once: within the limit where it fits, without one where it does not.
    pub reserved: u64,
    /// The most bytes allocated at once, likewise.
    pub peak: u64,
}

/// Where memory runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The phase.
    pub at: At,
    /// The request that failed, with the allocator's figures then.
    pub failure: OutOfMemory,
}

/// More memory than any GPU has, and little enough that addresses last.
const ROOMY: u64 = 1 << 42;

/// A GPU that behaves like `gpu` and has memory for all that it is asked for.
#[must_use]
pub fn roomy(gpu: &Gpu) -> Gpu {
    Gpu { total_memory: ROOMY, ..gpu.clone() }
}

/// Whether `work` runs in `limit` bytes of reserved memory, or in the configuration's own limit where that is lower; and what each phase
/// holds there, up to the one that runs out, if one does.
#[must_use]
pub fn room<'a>(work: &Work, cx: impl Into<RuleContext<'a>>, config: &AllocatorConfig, limit: u64) -> (Room, Foreseen) {
    let cx = cx.into();
    let limit = config.limit(cx.gpu.total_memory).map_or(limit, |own| own.min(limit));
    let gpu = roomy(cx.gpu);
    let cx = RuleContext { gpu: &gpu, ..cx };
    let (rows, shortage) = tried(work, cx, config.with_limit(Some(limit)));
    let without = shortage.is_some().then(|| foresee(work, cx, config.with_limit(None)));
    let (peak, reserved) = most(without.as_ref().unwrap_or(&rows).once());
    (Room { limit, shortage, reserved, peak }, rows)
}

/// The rows of `work`, and where memory runs out, if it does.
#[must_use]
pub fn tried<'a>(work: &Work, cx: impl Into<RuleContext<'a>>, config: AllocatorConfig) -> (Foreseen, Option<Shortage>) {
    let mut failures = Failures::default();
    let rows = run(work, cx.into(), config, Some(&mut failures), Pace::Rounds);
    (rows, failures.shortage)
}

/// Hears of the request that fails and of the row that it ends in.
#[derive(Debug, Default)]
struct Failures {
    last: Option<OutOfMemory>,
    shortage: Option<Shortage>,
}

impl Listener for Failures {
    fn hear(&mut self, happening: &Happening) {
        match happening {
            Happening::RanOut(failure) => self.last = Some(*failure),
            Happening::Row(row) if row.status == Status::Oom => {
                self.shortage = self.last.map(|failure| Shortage { at: row.at, failure });
            }
            _ => {}
        }
    }
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
