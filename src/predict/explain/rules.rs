//! Rules of thumb: what people reckon a training's peak with, for comparison. None of them is used for a prediction.

use std::collections::BTreeSet;

use crate::model::{Body, Plan, StateKind, Step, ValueId};
use crate::optim::{Implementation, Optimizer};

/// Which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thumb {
    /// `n × parameters + 2 × outputs + input`, n being weights, gradients and what the optimizer keeps.
    Copies {
        /// The n.
        n: u64,
    },
    /// 20 bytes a parameter: weight, gradient, two moments and what foreach Adam has beside them, 4 each.
    TwentyBytes,
    /// 16 bytes a parameter: weight, gradient and two moments, 4 each.
    SixteenBytes,
    /// Every tensor that the model, its gradients, the optimizer's state and the layers' outputs are, each once.
    TensorSum,
}

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleOfThumb {
    /// Which.
    pub thumb: Thumb,
    /// Its numbers put in, as text.
    pub formula: String,
    /// What it says, in bytes.
    pub bytes: u64,
    /// The predicted peak, in bytes.
    pub peak: u64,
}

impl RuleOfThumb {
    /// What it says too much, in bytes; below 0 too little.
    #[must_use]
    pub fn error(&self) -> i128 {
        i128::from(self.bytes) - i128::from(self.peak)
    }
}

/// The rules that are said of such a plan.
pub(super) fn rules(plan: &Plan, peak: u64) -> Vec<RuleOfThumb> {
    let state = |kind| plan.state.iter().filter(move |s| s.kind == kind);
    // Each tensor's size fits in 63 bits; that of all of them need not.
    let parameters = state(StateKind::Parameter).map(|s| s.meta.bytes()).fold(0, u64::saturating_add);
    let count = state(StateKind::Parameter).map(|s| s.meta.numel()).fold(0, u64::saturating_add);
    let buffers = state(StateKind::Buffer).map(|s| s.meta.bytes()).fold(0, u64::saturating_add);
    let program = &plan.programs[plan.schedule[0]];
    let bytes = |value: ValueId| program.meta(value).bytes();
    let mut values = BTreeSet::new();
    outputs(&program.forward, &mut values);
    let outputs: u64 = values.into_iter().map(bytes).fold(0, u64::saturating_add);
    let input = bytes(program.input);
    let trains = plan.settings.trains();
    let optimizer = plan.settings.optimizer;
    let kept = optimizer.as_ref().map_or(0, copies);
    let n = if trains { 2 + kept } else { 1 };
    let mut rules = Vec::new();
    let mut add = |thumb, formula: String, bytes: u64| rules.push(RuleOfThumb { thumb, formula, bytes, peak });
    add(
        Thumb::Copies { n },
        format!("{n} × {parameters} + 2 × {outputs} + {input}"),
        (n.saturating_mul(parameters)).saturating_add(outputs.saturating_mul(2)).saturating_add(input),
    );
    if matches!(&optimizer, Some(Optimizer::Adam(adam)) if adam.implementation == Implementation::Foreach) {
        add(Thumb::TwentyBytes, format!("20 × {count}"), count.saturating_mul(20));
    }
    if trains {
        add(Thumb::SixteenBytes, format!("16 × {count}"), count.saturating_mul(16));
    }
    let target = program.target.map_or(0, bytes);
    let copies = 1 + u64::from(trains) + kept;
    add(
        Thumb::TensorSum,
        format!("{copies} × {parameters} + {buffers} + {outputs} + {input} + {target}"),
        copies.saturating_mul(parameters).saturating_add(buffers).saturating_add(outputs).saturating_add(input).saturating_add(target),
    );
    rules
}

/// How many tensors of a parameter's size an optimizer keeps for each.
fn copies(optimizer: &Optimizer) -> u64 {
    match optimizer {
        Optimizer::Sgd(sgd) => u64::from(sgd.momentum != 0.0),
        Optimizer::Adam(adam) => 2 + u64::from(adam.amsgrad),
        Optimizer::Adagrad(_) => 1,
        Optimizer::RmsProp(rmsprop) => 1 + u64::from(rmsprop.momentum != 0.0) + u64::from(rmsprop.centered),
    }
}

/// The values that operators of a body put out.
fn outputs(body: &Body, values: &mut BTreeSet<ValueId>) {
    for step in &body.steps {
        match step {
            Step::Run { outputs, .. } => values.extend(outputs),
            Step::Checkpoint { body, .. } => self::outputs(body, values),
            Step::Drop(_) => {}
        }
    }
}
