//! Memory from shapes alone: an interpreter of the plan's rules. It knows no device, no tensor and no kernel, and shares with the
//! executor only what both are told: the plan, the rules of the GPU and the allocator's policy. Everything else, what is kept, freed
//! and scratched, in which order, it accounts for on its own, so that prediction and measurement can disagree.
//!
//! Reading order: [`listener`] (what it tells while it runs), `storage` (who holds what), `program` (a plan made ready to run),
//! `graph`, `history` and `checkpoint` (what autograd holds), `scope` and `machine` (what a script holds, and what a recipe does to it),
//! `forward` with `nodes`, `backward`, `scaler`, `training` (the reference loop), `steady` and `foreseen` (steps that repeat), `script`
//! (`[allocations]` files). Beside it stand the
//! questions people ask: [`room`] (does it fit), [`search`] (what is the most that does), [`recompute`], and [`explain`], where it goes.

pub mod explain;
pub mod listener;
pub mod recompute;
pub mod room;
pub mod search;

mod backward;
mod checkpoint;
mod foreseen;
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
mod steady;
mod storage;
mod training;

pub use foreseen::Foreseen;
pub use listener::{Happening, Listener, Origin, Pass};

use crate::alloc::AllocatorConfig;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::record::Predicted;

/// The rows of one case: what each phase will hold, and the phase in which memory will run out, if it will. A GPU alone stands for
/// itself with scratch as the rules foresee it.
#[must_use]
pub fn predict<'a>(work: &Work, cx: impl Into<RuleContext<'a>>, config: AllocatorConfig) -> Vec<Predicted> {
    foresee(work, cx, config).all()
}

/// As [`predict`], without the rows of steps that repeat earlier ones.
#[must_use]
pub fn foresee<'a>(work: &Work, cx: impl Into<RuleContext<'a>>, config: AllocatorConfig) -> Foreseen {
    run(work, cx.into(), config, None, Pace::Rounds)
}

/// As [`predict`], telling a listener of everything that is allocated and freed on the way.
#[must_use]
pub fn predict_with<'a>(
    work: &Work,
    cx: impl Into<RuleContext<'a>>,
    config: AllocatorConfig,
    listener: Option<&mut dyn Listener>,
) -> Vec<Predicted> {
    run(work, cx.into(), config, listener, Pace::Steps).all()
}

/// How steps are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// One by one.
    Steps,
    /// Until they repeat; what a listener would hear of the steps left out it has heard before.
    Rounds,
}

fn run(work: &Work, cx: RuleContext<'_>, config: AllocatorConfig, listener: Option<&mut dyn Listener>, pace: Pace) -> Foreseen {
    let storages = storage::Storages::new(cx.gpu, config, listener);
    match work {
        Work::Train(plan) => training::run(plan, cx, storages, pace),
        Work::Script(script) => script::run(script, storages),
    }
}
