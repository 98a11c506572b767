//! What autograd would refuse: a tensor that an operator keeps for backward and that another then writes into. PyTorch counts the
//! writes into each storage and compares when backward asks for the tensor.
//!
//! Inside a checkpointed region nothing is compared, as tensors kept there go through hooks; the region's argument is.

use std::collections::BTreeSet;

use super::plan::{Body, LayerId, Plan, Program, StateKind, Step, ValueId};
use crate::gpu::CATALOGUE;
use crate::meta::TensorMeta;
use crate::ops::rule::{Effect, Output, RuleContext, Saved};

/// A tensor that was written after it had been kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Modified {
    /// Who writes.
    pub writer: LayerId,
    /// Who keeps.
    pub keeper: LayerId,
    /// What is kept.
    pub kept: Kept,
}

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// An operator's input, by the operator's name.
    Input(&'static str),
    /// An operator's output, by the operator's name.
    Output(&'static str),
    /// A checkpointed region's argument.
    Argument,
}

/// Every such tensor, in the order of their writers.
#[must_use]
pub fn modified(plan: &Plan) -> Vec<Modified> {
    let found: BTreeSet<Modified> = plan.programs.iter().flat_map(|program| Walk::over(plan, program)).collect();
    found.into_iter().collect()
}

struct Walk<'a> {
    program: &'a Program,
    /// Of each value: the value whose storage it lives in.
    storage: Vec<usize>,
    needs_grad: Vec<bool>,
    /// Of each storage: how often it was written in place, and by whom last.
    writes: Vec<(u32, Option<LayerId>)>,
    kept: Vec<(usize, u32, LayerId, Kept)>,
    /// How many checkpointed regions are open.
    regions: usize,
}

impl<'a> Walk<'a> {
    fn over(plan: &Plan, program: &'a Program) -> Vec<Modified> {
        let n = program.values.len();
        let mut needs_grad = vec![false; n];
        for (needs, state) in needs_grad.iter_mut().zip(&plan.state) {
            *needs = state.kind == StateKind::Parameter;
        }
        let mut walk = Walk { program, storage: (0..n).collect(), needs_grad, writes: vec![(0, None); n], kept: Vec::new(), regions: 0 };
        walk.body(&program.forward);
        for body in [&program.criterion, &program.divide].into_iter().flatten() {
            walk.body(body);
        }
        let Walk { writes, kept, .. } = walk;
        let changed = kept.into_iter().filter(|&(storage, version, ..)| writes[storage].0 != version);
        changed.filter_map(|(storage, _, keeper, kept)| writes[storage].1.map(|writer| Modified { writer, keeper, kept })).collect()
    }

    /// Walks a body; says whether anything in it was kept for backward.
    fn body(&mut self, body: &Body) -> bool {
        let mut keeps = false;
        for step in &body.steps {
            match step {
                Step::Run { op, inputs, outputs, layer } => keeps |= self.run(op.rule(), inputs, outputs, *layer),
                Step::Drop(_) => {}
                Step::Checkpoint { input, body } => keeps |= self.region(*input, body),
            }
        }
        keeps
    }

    fn region(&mut self, input: ValueId, body: &Body) -> bool {
        let argument = self.storage[input.index()];
        let version = self.writes[argument].0;
        self.regions += 1;
        let keeps = self.body(body);
        self.regions -= 1;
        if let (true, 0, Some(keeper)) = (keeps, self.regions, first_layer(body)) {
            self.kept.push((argument, version, keeper, Kept::Argument));
        }
        keeps
    }

    fn run(&mut self, rule: &dyn crate::ops::OpRule, inputs: &[ValueId], outputs: &[ValueId], layer: LayerId) -> bool {
        let metas: Vec<TensorMeta> = inputs.iter().map(|&v| self.program.meta(v).clone()).collect();
        let needs: Vec<bool> = inputs.iter().map(|v| self.needs_grad[v.index()]).collect();
        // Which tensors are kept does not depend on the GPU.
        let forward = rule.forward(RuleContext::from(&CATALOGUE[0]), &metas, &needs);
        let input = |i: usize| inputs[i].index();
        let mut keeps = false;
        for effect in &forward.effects {
            let Effect::Keep(saved) = effect else { continue };
            keeps = true;
            if let (Saved::Input(i), 0) = (saved, self.regions) {
                let storage = self.storage[input(*i)];
                self.kept.push((storage, self.writes[storage].0, layer, Kept::Input(rule.name())));
            }
        }
        for (output, value) in forward.outputs.iter().zip(outputs) {
            let value = value.index();
            self.needs_grad[value] = needs.contains(&true);
            match output {
                Output::New(..) | Output::NewView(..) | Output::Alias(..) => {}
                Output::View(i, _) | Output::Same(i) => self.storage[value] = self.storage[input(*i)],
                Output::InPlace(i, _) => {
                    let storage = self.storage[input(*i)];
                    self.storage[value] = storage;
                    self.writes[storage] = (self.writes[storage].0 + 1, Some(layer));
                }
            }
        }
        for effect in &forward.effects {
            if let (Effect::Keep(Saved::Output(i)), 0) = (effect, self.regions) {
                let storage = self.storage[outputs[*i].index()];
                self.kept.push((storage, self.writes[storage].0, layer, Kept::Output(rule.name())));
            }
        }
        keeps
    }
}

/// The layer of the first operator in a region.
fn first_layer(body: &Body) -> Option<LayerId> {
    body.steps.iter().find_map(|step| match step {
        Step::Run { layer, .. } => Some(*layer),
        Step::Drop(_) => None,
        Step::Checkpoint { body, .. } => first_layer(body),
    })
}
