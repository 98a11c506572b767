//! A plan's program made ready to run: bodies flattened into one list of instructions, every operator with its recipe. Recipes depend
//! on shapes alone (backward's also on how the incoming gradient lies), so each is asked for once.
//!
//! Invariant: an instruction list is straight; regions are marked by where they begin and end, and nest.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use super::graph::Gradient as Arrived;
use crate::meta::TensorMeta;
use crate::model::{Body, LayerId, Program, StateKind, StateTensor, Step, ValueId};
use crate::ops::rule::{Effect, Gradient, OpRule, Output, RuleContext};

/// An operator of a program, by number.
pub(super) type OpId = u32;

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Run an operator.
    Run(OpId),
    /// A variable dies.
    Drop(ValueId),
    /// A checkpointed region begins; by number.
    Enter(u32),
    /// The innermost region ends.
    Leave,
}

/// A checkpointed region.
#[derive(Debug, Clone)]
pub(super) struct Region {
    /// Its argument.
    pub(super) input: ValueId,
    /// The instructions between its marks.
    pub(super) instructions: Range<usize>,
    /// The values that it computes lie in this range.
    pub(super) values: Range<usize>,
}

/// A body: its instructions, and the value that it returns.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) instructions: Range<usize>,
    pub(super) result: ValueId,
}

/// An operator with its recipes.
pub(super) struct Op<'p> {
    rule: &'p dyn OpRule,
    pub(super) name: &'static str,
    pub(super) layer: LayerId,
    pub(super) inputs: Vec<ValueId>,
    pub(super) outputs: Vec<ValueId>,
    pub(super) metas: Vec<TensorMeta>,
    pub(super) needs: Vec<bool>,
    /// Whether it becomes a node of the graph.
    pub(super) is_node: bool,
    /// Inputs that pass through views of their own, in the order in which these are taken.
    pub(super) seen: Vec<usize>,
    /// What it makes, where its first output is another view of that.
    pub(super) made: Option<Layout>,
    pub(super) forward: Vec<Effect>,
    pub(super) results: Vec<Source>,
    backward: RefCell<Option<Rc<Backward>>>,
}

/// Backward's recipe for gradients that lie in one certain way.
#[derive(Debug)]
pub(super) struct Backward {
    incoming: Vec<Option<Layout>>,
    pub(super) effects: Vec<Effect>,
    pub(super) gradients: Vec<Outgoing>,
}

/// Shape, type and strides of a gradient, shared by all that lie alike.
pub(super) type Layout = Rc<TensorMeta>;

/// Where the gradient of an input lives, as [`Gradient`], its layout shared.
#[derive(Debug, Clone)]
pub(super) enum Outgoing {
    None,
    New(usize, Layout),
    Part(usize, Layout),
    Same(usize),
    View(usize, Layout),
}

/// Where an output comes from, as [`Output`], without shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    New(usize),
    View(usize),
    Same(usize),
    InPlace(usize),
}

/// What a value is a view of.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// How the base lies.
    pub(super) base: Layout,
    /// The base's value, where the program has one for it.
    pub(super) root: Option<ValueId>,
}

/// A program made ready.
pub(super) struct Compiled<'p> {
    pub(super) instructions: Vec<Instruction>,
    pub(super) ops: Vec<Op<'p>>,
    pub(super) regions: Vec<Region>,
    pub(super) forward: Span,
    pub(super) criterion: Option<Span>,
    pub(super) divide: Option<Span>,
    /// What the program says, for the rest.
    pub(super) program: &'p Program,
    /// What each value is a view of, if of anything.
    pub(super) views: Vec<Option<View>>,
    /// Of each value, the first in its storage; and whether a node writes into that.
    storages: Vec<(ValueId, bool)>,
}

impl<'p> Compiled<'p> {
    /// Makes a program ready. `tape`: whether gradients are recorded.
    pub(super) fn new(program: &'p Program, state: &[StateTensor], cx: RuleContext<'_>, tape: bool) -> Self {
        let mut requires = vec![false; program.values.len()];
        for (required, s) in requires.iter_mut().zip(state) {
            *required = tape && s.kind == StateKind::Parameter;
        }
        let views = vec![None; program.values.len()];
        let storages = (0..).take(program.values.len()).map(|v| (ValueId(v), false)).collect();
        let mut c = Compiling {
            program,
            cx,
            views,
            storages,
            instructions: Vec::new(),
            ops: Vec::new(),
            regions: Vec::new(),
            open: Vec::new(),
            requires,
        };
        let forward = c.body(&program.forward);
        let criterion = program.criterion.as_ref().map(|b| c.body(b));
        let divide = program.divide.as_ref().map(|b| c.body(b));
        let Compiling { instructions, ops, regions, views, storages, .. } = c;
        Self { instructions, ops, regions, forward, criterion, divide, program, views, storages }
    }

    /// The first value in the storage of this one, where a node writes into that.
    pub(super) fn written(&self, value: ValueId) -> Option<ValueId> {
        let (first, _) = self.storages[value.index()];
        self.storages[first.index()].1.then_some(first)
    }
}

/// The range that any other widens: of no value yet.
#[allow(clippy::reversed_empty_ranges)] // start and end are a minimum and a maximum still to come
const NOTHING: Range<usize> = usize::MAX..0;

struct Compiling<'p, 'g> {
    program: &'p Program,
    cx: RuleContext<'g>,
    instructions: Vec<Instruction>,
    ops: Vec<Op<'p>>,
    regions: Vec<Region>,
    /// Regions under way, outermost first.
    open: Vec<usize>,
    /// Whether each value requires a gradient.
    requires: Vec<bool>,
    views: Vec<Option<View>>,
    storages: Vec<(ValueId, bool)>,
}

impl<'p> Compiling<'p, '_> {
    fn body(&mut self, body: &'p Body) -> Span {
        let begin = self.instructions.len();
        // For each open region, the rest of the body around it.
        let mut around: Vec<std::slice::Iter<'p, Step>> = Vec::new();
        let mut steps = body.steps.iter();
        loop {
            match steps.next() {
                Some(Step::Run { op, inputs, outputs, layer }) => self.run(op.rule(), inputs, outputs, *layer),
                Some(Step::Drop(value)) => self.instructions.push(Instruction::Drop(*value)),
                Some(Step::Checkpoint { input, body }) => {
                    self.enter(*input);
                    around.push(std::mem::replace(&mut steps, body.steps.iter()));
                }
                None => {
                    let Some(rest) = around.pop() else { break };
                    self.leave();
                    steps = rest;
                }
            }
        }
        Span { instructions: begin..self.instructions.len(), result: body.result }
    }

    fn enter(&mut self, input: ValueId) {
        let region = self.regions.len();
        self.instructions.push(Instruction::Enter(u32::try_from(region).expect("plans hold far fewer regions")));
        let at = self.instructions.len();
        self.regions.push(Region { input, instructions: at..at, values: NOTHING });
        self.open.push(region);
    }

    fn leave(&mut self) {
        let region = self.open.pop().expect("what is left was entered");
        self.regions[region].instructions.end = self.instructions.len();
        self.instructions.push(Instruction::Leave);
        let inside = self.regions[region].values.clone();
        self.widen(inside);
    }

    /// The innermost open region computes these values too.
    fn widen(&mut self, values: Range<usize>) {
        if let Some(&region) = self.open.last() {
            let range = &mut self.regions[region].values;
            *range = range.start.min(values.start)..range.end.max(values.end);
        }
    }

    fn run(&mut self, rule: &'p dyn OpRule, inputs: &[ValueId], outputs: &[ValueId], layer: LayerId) {
        let metas: Vec<TensorMeta> = inputs.iter().map(|&v| self.program.meta(v).clone()).collect();
        let needs: Vec<bool> = inputs.iter().map(|v| self.requires[v.index()]).collect();
        let forward = rule.forward(self.cx, &metas, &needs);
        let results: Vec<Source> = forward.outputs.iter().zip(outputs).map(|(output, &value)| self.result(output, value, inputs)).collect();
        let is_node = needs.contains(&true) && !results.iter().all(|r| matches!(r, Source::Same(_)));
        for (result, v) in results.iter().zip(outputs) {
            let v = v.index();
            if let Source::View(i) | Source::Same(i) | Source::InPlace(i) = *result {
                let (first, _) = self.storages[inputs[i].index()];
                self.storages[v].0 = first;
                self.storages[first.index()].1 |= is_node && matches!(result, Source::InPlace(_));
            }
            let required = if let Source::Same(i) = *result { needs[i] } else { is_node };
            self.requires[v] = required && self.program.values[v].dtype.is_float();
            self.widen(v..v + 1);
        }
        self.instructions.push(Instruction::Run(OpId::try_from(self.ops.len()).expect("plans hold far fewer operators")));
        let (seen, made) = (rule.views(&metas), rule.makes(&metas).map(Rc::new));
        self.ops.push(Op {
            rule,
            name: rule.name(),
            layer,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            metas,
            needs,
            is_node,
            seen,
            made,
            forward: forward.effects,
            results,
            backward: RefCell::new(None),
        });
    }

    /// Where an output comes from; notes what it is a view of.
    fn result(&mut self, output: &Output, value: ValueId, inputs: &[ValueId]) -> Source {
        let of = |i: usize| inputs[i].index();
        let (source, view) = match output {
            Output::New(slot, _) => (Source::New(*slot), None),
            Output::NewView(slot, _, base) => (Source::New(*slot), Some(View { base: Rc::new(base.clone()), root: None })),
            Output::View(i, _) => {
                let base = || View { base: Rc::new(self.program.values[of(*i)].clone()), root: Some(inputs[*i]) };
                (Source::View(*i), Some(self.views[of(*i)].clone().unwrap_or_else(base)))
            }
            Output::Alias(i, _) => (Source::View(*i), None),
            Output::Same(i) => (Source::Same(*i), self.views[of(*i)].clone()),
            Output::InPlace(i, _) => (Source::InPlace(*i), self.views[of(*i)].clone()),
        };
        self.views[value.index()] = view;
        source
    }
}

impl Op<'_> {
    /// Backward's recipe for gradients that lie as these do.
    pub(super) fn backward(&self, cx: RuleContext<'_>, incoming: &[Option<Arrived>]) -> Rc<Backward> {
        let layouts = || incoming.iter().map(|g| g.as_ref().map(|g| &g.layout));
        let mut cached = self.backward.borrow_mut();
        if let Some(b) = cached.as_ref().filter(|b| b.incoming.iter().zip(layouts()).all(|(a, b)| alike(a.as_ref(), b))) {
            return Rc::clone(b);
        }
        let metas: Vec<Option<TensorMeta>> = layouts().map(|g| g.map(|g| TensorMeta::clone(g))).collect();
        let recipe = self.rule.backward(cx, &self.metas, &metas, &self.needs);
        let gradients = recipe
            .gradients
            .into_iter()
            .map(|g| match g {
                Gradient::None => Outgoing::None,
                Gradient::New(slot, meta) => Outgoing::New(slot, Rc::new(meta)),
                Gradient::Part(slot, meta) => Outgoing::Part(slot, Rc::new(meta)),
                Gradient::Same(n) => Outgoing::Same(n),
                Gradient::View(n, meta) => Outgoing::View(n, Rc::new(meta)),
            })
            .collect();
        let made = Rc::new(Backward { incoming: layouts().map(Option::<&Layout>::cloned).collect(), effects: recipe.effects, gradients });
        *cached = Some(Rc::clone(&made));
        made
    }
}

fn alike(a: Option<&Layout>, b: Option<&Layout>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Rc::ptr_eq(a, b) || a == b,
        (None, None) => true,
        _ => false,
    }
}
