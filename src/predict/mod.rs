//! Memory from shapes alone: an interpreter of the plan's rules. It knows no device, no tensor and no kernel, and shares with the
//! executor only what both are told: the plan, the rules of the GPU and the allocator's policy. Everything else, what is kept, freed
//! and scratched, in which order, it accounts for on its own, so that prediction and measurement can disagree.
//!
//! Reading order: [`listener`] (what it tells while it runs), `storage` (who holds what), `program` (a plan made ready to run),
//! `graph`, `history` and `checkpoint` (what autograd holds), `scope` and `machine` (what a script holds, and what a recipe does to it),
//! `forward` with `nodes`, `backward`, `scaler`, `training` (the reference loop), `script` (`[allocations]` files). Beside it stand the
//! questions people ask: [`room`] (does it fit), [`search`] (what is the most that does), [`recompute`], and [`explain`], where it goes.

pub mod explain;
pub mod listener;
pub mod recompute;
pub mod room;
pub mod search;

mod backward;
mod checkpoint;
mod forward;
mod graph;
mod history;
mod machine;
mod nodes;
mod program;
mod scaler;
mod scope;
mod script;
mod slab;
mod storage;
mod training;

pub use listener::{Happening, Listener, Origin, Pass};

use crate::alloc::AllocatorConfig;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::record::Predicted;

/// The rows of one case: what each phase will hold, and the phase in which memory will run out, if it will. A GPU alone stands for
/// itself with scratch as the rules foresee it.
#[must_use]
pub fn predict<'a>(work: &Work, cx: impl Into<RuleContext<'a>>, config: AllocatorConfig) -> Vec<Predicted> {
    predict_with(work, cx, config, None)
}

/// As [`predict`], telling a listener of everything that is allocated and freed on the way.
#[must_use]
pub fn predict_with<'a>(
    work: &Work,
    cx: impl Into<RuleContext<'a>>,
    config: AllocatorConfig,
    listener: Option<&mut dyn Listener>,
) -> Vec<Predicted> {
    let cx = cx.into();
    let storages = storage::Storages::new(cx.gpu, config, listener);
    match work {
        Work::Train(plan) => training::run(plan, cx, storages),
        Work::Script(script) => script::run(script, storages),
    }
}
