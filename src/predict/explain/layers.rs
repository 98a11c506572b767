//! A line a layer: what a person can work out of its shapes, beside what it makes and keeps.

use std::collections::BTreeMap;

use super::ledger::Ledger;
use crate::model::{Body, LayerId, Plan, StateKind, Step, ValueId};

/// What a layer is and holds. All figures are bytes but for the number of parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerLine {
    /// Its path, e.g. `3.residual.body.0.linear`.
    pub path: String,
    /// Elements of its parameters.
    pub parameters: u64,
    /// Their bytes.
    pub parameter_bytes: u64,
    /// Bytes of its buffers.
    pub buffer_bytes: u64,
    /// Elements of its output.
    pub outputs: u64,
    /// Their bytes.
    pub output_bytes: u64,
    /// Bytes of its tensors that are alive once the first loss exists: what backward needs of what it made, by blocks.
    pub kept: u64,
    /// The most that one of its operators makes and frees by itself in forward, by blocks.
    pub scratch_forward: u64,
    /// The same in backward.
    pub scratch_backward: u64,
}

/// A line for each layer that does something.
pub(super) fn lines(plan: &Plan, ledger: &Ledger<'_>) -> Vec<LayerLine> {
    let mut lines: BTreeMap<LayerId, LayerLine> = BTreeMap::new();
    for state in &plan.state {
        let line = lines.entry(state.layer).or_default();
        match state.kind {
            StateKind::Parameter => {
                line.parameters += state.meta.numel();
                line.parameter_bytes += state.meta.bytes();
            }
            StateKind::Buffer => line.buffer_bytes += state.meta.bytes(),
        }
    }
    let program = &plan.programs[plan.schedule[0]];
    let mut outputs: BTreeMap<LayerId, ValueId> = BTreeMap::new();
    visit(&program.forward, &mut outputs);
    if let Some(criterion) = &program.criterion {
        visit(criterion, &mut outputs);
    }
    for (layer, value) in outputs {
        let (line, meta) = (lines.entry(layer).or_default(), program.meta(value));
        line.outputs = meta.numel();
        line.output_bytes = meta.bytes();
    }
    for (&layer, &kept) in &ledger.kept {
        lines.entry(layer).or_default().kept = kept;
    }
    for (&layer, scratch) in &ledger.scratch {
        let line = lines.entry(layer).or_default();
        (line.scratch_forward, line.scratch_backward) = (scratch.forward, scratch.backward);
    }
    let path = |layer: LayerId| plan.layers.get(layer.index()).map_or_else(String::new, |l| l.path.clone());
    lines.into_iter().map(|(layer, line)| LayerLine { path: path(layer), ..line }).collect()
}

/// The last value that each layer's operators put out.
fn visit(body: &Body, outputs: &mut BTreeMap<LayerId, ValueId>) {
    for step in &body.steps {
        match step {
            Step::Run { outputs: out, layer, .. } => {
                if let Some(&last) = out.first() {
                    outputs.insert(*layer, last);
                }
            }
            Step::Checkpoint { body, .. } => visit(body, outputs),
            Step::Drop(_) => {}
        }
    }
}
