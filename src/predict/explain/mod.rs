//! Where memory goes: what each layer keeps, what is alive at every row and at the peak, and what rules of thumb would have said.
//!
//! It listens to a prediction and adds up; it decides nothing about memory.
//! Reading order: `ledger` (who holds what, as it happens), `layers`, `rules`.

mod layers;
mod ledger;
mod rules;

pub use layers::LayerLine;
pub use ledger::{Item, Moment, Total};
pub use rules::{RuleOfThumb, Thumb};

use crate::alloc::AllocatorConfig;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::record::{At, Predicted, Status};

/// All that is to be said of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The prediction.
    pub rows: Vec<Predicted>,
    /// A line a layer, in the order of the model; none for a script.
    pub layers: Vec<LayerLine>,
    /// What is alive at each row, by layer and category.
    pub totals: Vec<Vec<Total>>,
    /// What is alive at each row of the first step, tensor by tensor.
    pub phases: Vec<Moment>,
    /// What is alive at the highest peak.
    pub peak: Moment,
    /// What people reckon with; none for a script.
    pub rules: Vec<RuleOfThumb>,
}

impl Explanation {
    /// The phase that runs out of memory, if one does: what is explained ends there.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<At> {
        self.rows.iter().find(|row| row.status == Status::Oom).map(|row| row.at)
    }
}

/// Explains a case: predicts it twice, the second time up to its peak.
#[must_use]
pub fn explain<'a>(work: &Work, cx: impl Into<RuleContext<'a>>, config: &AllocatorConfig) -> Explanation {
    let cx = cx.into();
    let plan = if let Work::Train(plan) = work { Some(&**plan) } else { None };
    let mut first = ledger::Ledger::new(plan, None);
    let rows = super::predict_with(work, cx, config.clone(), Some(&mut first));
    let highest = first.highest();
    let mut second = ledger::Ledger::new(plan, Some(highest));
    let _ = super::predict_with(work, cx, config.clone(), Some(&mut second));
    let peak = second.at_highest();
    let layers = plan.map(|plan| layers::lines(plan, &first)).unwrap_or_default();
    let rules = plan.map(|plan| rules::rules(plan, peak.allocated)).unwrap_or_default();
    Explanation { rows, layers, totals: first.totals, phases: first.phases, peak, rules }
}
