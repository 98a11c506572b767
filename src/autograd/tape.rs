//! The tape: runs operators and, where a gradient will be wanted, leaves nodes behind.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use super::checkpoint::{Frame, Region};
use super::node::{Edge, Function, Node, Part, Ran};
use super::saved::SavedVariable;
use super::variable::{Base, History, Variable};
use crate::alloc::OutOfMemory;
use crate::exec::Exec;
use crate::meta::TensorMeta;
use crate::ops::Operator;
use crate::ops::kernel::{Identity, OpKernel};
use crate::record::{Pass, Running};
use crate::tensor::Tensor;

/// Why a forward pass ended before its end.
#[derive(Debug)]
pub enum Halt {
    /// No memory.
    OutOfMemory(OutOfMemory),
    /// A recomputation has all that it was run for.
    Stop,
}

impl From<OutOfMemory> for Halt {
    fn from(e: OutOfMemory) -> Self {
        Self::OutOfMemory(e)
    }
}

impl Halt {
    /// The only reason outside of recomputations.
    ///
    /// # Panics
    /// It was a stop, which only a recomputation gets.
    #[must_use]
    pub fn out_of_memory(self) -> OutOfMemory {
        match self {
            Self::OutOfMemory(e) => e,
            Self::Stop => panic!("only a recomputation is stopped"),
        }
    }
}

type Result<T> = std::result::Result<T, Halt>;

/// What packing a tensor does, innermost region first.
#[derive(Debug)]
pub(super) enum Hook {
    /// In a checkpointed region: keeps a place instead.
    Hold(Rc<Frame>),
    /// In a recomputation: fills places.
    Fill(Rc<Frame>),
}

/// Records what backward will need.
#[derive(Debug)]
pub struct Tape {
    records: bool,
    /// Nodes made so far.
    sequence: Cell<u64>,
    /// Backward passes begun so far.
    pub(super) passes: Cell<u64>,
    hooks: RefCell<Vec<Hook>>,
    /// What an exception holds.
    held: RefCell<Vec<Variable>>,
    /// Histories that operators in place have changed.
    rewritten: RefCell<Vec<Weak<RefCell<Option<Edge>>>>>,
}

impl Tape {
    /// A tape, or with `records` false what runs under `no_grad`: nothing requires a gradient.
    #[must_use]
    pub fn new(records: bool) -> Self {
        Self {
            records,
            sequence: Cell::new(0),
            passes: Cell::new(0),
            hooks: RefCell::default(),
            held: RefCell::default(),
            rewritten: RefCell::default(),
        }
    }

    /// Runs an operator.
    ///
    /// # Errors
    /// Out of memory; a stop, within a recomputation.
    pub fn apply(&self, exec: &Exec, op: &Operator, inputs: &[&Variable]) -> Result<Vec<Variable>> {
        let kernel = op.kernel();
        let tensors: Vec<&Tensor> = inputs.iter().map(|v| &v.tensor).collect();
        let identity = kernel.identity(&tensors);
        if identity == Identity::Input {
            return Ok(vec![inputs[0].clone()]);
        }
        let constants: Vec<Variable> = kernel.constants(exec, &tensors)?.into_iter().map(Variable::constant).collect();
        let inputs: Vec<&Variable> = inputs.iter().copied().chain(&constants).collect();
        let tensors: Vec<&Tensor> = inputs.iter().map(|v| &v.tensor).collect();
        let needs: Vec<bool> = inputs.iter().map(|v| self.records && v.requires_grad()).collect();
        if !needs.contains(&true) {
            let forward = OpKernel::forward(kernel, exec, &tensors, &needs)?;
            return Ok(forward.outputs.into_iter().map(Variable::constant).collect());
        }
        let mut saved = Vec::new();
        for tensor in kernel.save_inputs(exec, &tensors, &needs)? {
            saved.push(match tensor {
                Some(tensor) => match inputs.iter().find(|v| v.tensor.is(&tensor)) {
                    Some(&input) => self.pack(SavedVariable::Input(input.clone()))?,
                    None => self.pack(SavedVariable::Made(tensor))?,
                },
                None => SavedVariable::Nothing,
            });
        }
        let forward = OpKernel::forward(kernel, exec, &tensors, &needs)?;
        for tensor in forward.saved {
            saved.push(self.pack(SavedVariable::Made(tensor))?);
        }
        let mut edges: Vec<Option<Edge>> = inputs.iter().map(|v| v.edge()).collect();
        let mut metas: Vec<Rc<TensorMeta>> = tensors.iter().map(|t| t.shared_meta()).collect();
        for (i, seen) in kernel.viewed(&tensors) {
            if let Some(edge) = edges[i].take() {
                let of = std::mem::replace(&mut metas[i], seen);
                edges[i] = Some(self.node(exec, Function::View(of), vec![Some(edge)], 1));
            }
        }
        let ran = Ran { op: op.clone(), saved: RefCell::new(saved), inputs: metas, needs, stream: forward.stream };
        let first = inputs[0];
        if let (Identity::InPlace, Some(base)) = (identity, &first.base) {
            self.remember_writing_through(exec, ran, (first, base), edges);
            return Ok(vec![first.clone()]);
        }
        Ok(self.remember(exec, ran, (identity, first), edges, forward.outputs))
    }

    /// Leaves nodes behind for what wrote into a view: it has changed the base, and the view is taken of that anew.
    fn remember_writing_through(&self, exec: &Exec, ran: Ran, (view, base): (&Variable, &Base), mut edges: Vec<Option<Edge>>) {
        edges[0] = base.history.borrow().clone();
        let part = Part { base: Rc::clone(&base.meta), view: view.tensor.shared_meta(), offset: view.tensor.offset() - base.offset };
        let written = self.node(exec, Function::CopySlices(ran, part.clone()), edges, 1);
        let of_view = self.node(exec, Function::AsStrided(part), vec![Some(written.clone())], 1);
        self.rewrite(&base.history, written);
        self.rewrite(&view.history, of_view);
    }

    /// Leaves nodes behind for what ran, which the variables of its outputs hold.
    fn remember(
        &self,
        exec: &Exec,
        ran: Ran,
        (identity, first): (Identity, &Variable),
        edges: Vec<Option<Edge>>,
        outputs: Vec<Tensor>,
    ) -> Vec<Variable> {
        let made = outputs.first().and_then(|output| ran.op.kernel().made(output));
        let node = self.node(exec, Function::Operator(ran), edges, outputs.len());
        if identity == Identity::InPlace {
            self.rewrite(&first.history, node);
            return vec![first.clone()];
        }
        let view = made.map(|made| self.node(exec, Function::View(Rc::new(made)), vec![Some(node.clone())], 1));
        let variable = |(output, tensor): (u32, Tensor)| {
            let edge = view.clone().filter(|_| output == 0).unwrap_or_else(|| Edge { output, ..node.clone() });
            let mut variable = Variable::with_edge(tensor, Some(edge));
            variable.base = match identity {
                Identity::View => Some(first.base.clone().unwrap_or_else(|| first.as_base())),
                Identity::ViewOfNew => {
                    let hidden = Variable::with_edge(variable.tensor.clone(), Some(node.clone()));
                    Some(hidden.as_base())
                }
                Identity::New | Identity::Input | Identity::InPlace => None,
            };
            variable
        };
        (0..).zip(outputs).map(variable).collect()
    }

    /// A new node, as the edge to its first output.
    fn node(&self, exec: &Exec, function: Function, edges: Vec<Option<Edge>>, outputs: usize) -> Edge {
        let sequence = self.sequence.replace(self.sequence.get() + 1);
        let running = Running { pass: Pass::Backward, ..exec.memory().running() };
        Edge::to(Rc::new(Node::new(sequence, function, running, edges, outputs)), 0)
    }

    /// Runs `work` as a checkpointed region over `input`; `region` is how to run it again. Without a tape it just runs.
    ///
    /// # Errors
    /// Those of `work`; a stop, within a recomputation.
    pub fn checkpoint<T>(&self, exec: &Exec, input: &Variable, region: Rc<dyn Region>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.records {
            return work();
        }
        let packed = self.pack(SavedVariable::Input(input.clone()))?;
        let frame = Rc::new(Frame::new(packed, input.edge(), region, exec.generator().state()));
        self.hooked(Hook::Hold(frame), work)
    }

    /// Keeps variables alive as long as the tape: those of a recomputation that ran out of memory.
    pub fn hold(&self, variables: impl IntoIterator<Item = Variable>) {
        self.held.borrow_mut().extend(variables);
    }

    pub(super) fn hooked<T>(&self, hook: Hook, work: impl FnOnce() -> T) -> T {
        self.hooks.borrow_mut().push(hook);
        let value = work();
        self.hooks.borrow_mut().pop();
        value
    }

    fn pack(&self, saved: SavedVariable) -> Result<SavedVariable> {
        match self.hooks.borrow().last() {
            None => {}
            Some(Hook::Hold(frame)) => return Ok(frame.hold()),
            Some(Hook::Fill(frame)) => {
                let tensor = saved.tensor().map(Tensor::detach).expect("what is packed is at hand");
                frame.fill(tensor.clone())?;
                return Ok(SavedVariable::Made(tensor));
            }
        }
        Ok(saved)
    }

    /// Gives a tensor another history.
    fn rewrite(&self, history: &History, edge: Edge) {
        history.replace(Some(edge));
        let mut rewritten = self.rewritten.borrow_mut();
        if rewritten.len() == rewritten.capacity() {
            rewritten.retain(|h| h.strong_count() > 0);
        }
        rewritten.push(Rc::downgrade(history));
    }
}

impl Drop for Tape {
    /// Graphs that keep themselves alive do so through a history that was rewritten.
    fn drop(&mut self) {
        for history in self.rewritten.take() {
            if let Some(history) = history.upgrade() {
                let edge = history.take();
                drop(edge);
            }
        }
    }
}
