//! The tape: runs operators and, where a gradient will be wanted, leaves nodes behind.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::checkpoint::{Frame, Region};
use super::node::{Edge, Node};
use super::saved::SavedVariable;
use super::variable::Variable;
use crate::alloc::OutOfMemory;
use crate::exec::Exec;
use crate::ops::Operator;
use crate::ops::kernel::OpKernel;
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
}

impl Tape {
    /// A tape, or with `records` false what runs under `no_grad`: nothing requires a gradient.
    #[must_use]
    pub fn new(records: bool) -> Self {
        Self { records, sequence: Cell::new(0), passes: Cell::new(0), hooks: RefCell::default() }
    }

    /// Runs an operator.
    ///
    /// # Errors
    /// Out of memory; a stop, within a recomputation.
    pub fn apply(&self, exec: &Exec, op: &Operator, inputs: &[&Variable]) -> Result<Vec<Variable>> {
        let kernel = op.kernel();
        let tensors: Vec<&Tensor> = inputs.iter().map(|v| &v.tensor).collect();
        let needs: Vec<bool> = inputs.iter().map(|v| self.records && v.requires_grad()).collect();
        if !needs.contains(&true) {
            let forward = OpKernel::forward(kernel, exec, &tensors, &needs)?;
            return Ok(forward.outputs.into_iter().map(Variable::constant).collect());
        }
        let mut saved = Vec::new();
        for tensor in kernel.save_inputs(exec, &tensors, &needs)? {
            saved.push(match tensor {
                Some(tensor) => self.pack(tensor)?,
                None => SavedVariable::Nothing,
            });
        }
        let forward = OpKernel::forward(kernel, exec, &tensors, &needs)?;
        for tensor in forward.saved {
            saved.push(self.pack(tensor)?);
        }
        let edges = inputs.iter().map(|v| v.edge.clone()).collect();
        let metas = tensors.iter().map(|t| t.shared_meta()).collect();
        let sequence = self.sequence.replace(self.sequence.get() + 1);
        let node = Rc::new(Node::operator(sequence, op.clone(), saved, metas, edges, forward.outputs.len()));
        let outputs = (0..).zip(forward.outputs);
        Ok(outputs.map(|(i, tensor)| Variable { tensor, edge: Some(Edge::to(Rc::clone(&node), i)) }).collect())
    }

    /// Runs `work` as a checkpointed region over `input`; `region` is how to run it again. Without a tape it just runs.
    ///
    /// # Errors
    /// Those of `work`; a stop, within a recomputation.
    pub fn checkpoint<T>(
        &self,
        exec: &Exec,
        input: &Variable,
        region: impl FnOnce() -> Rc<dyn Region>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !self.records {
            return work();
        }
        let packed = self.pack(input.tensor.clone())?;
        let frame = Rc::new(Frame::new(packed, input.edge.clone(), region(), exec.generator().state()));
        self.hooked(Hook::Hold(frame), work)
    }

    pub(super) fn hooked<T>(&self, hook: Hook, work: impl FnOnce() -> T) -> T {
        self.hooks.borrow_mut().push(hook);
        let value = work();
        self.hooks.borrow_mut().pop();
        value
    }

    fn pack(&self, tensor: Tensor) -> Result<SavedVariable> {
        match self.hooks.borrow().last() {
            None => {}
            Some(Hook::Hold(frame)) => return Ok(frame.hold()),
            Some(Hook::Fill(frame)) => frame.fill(&tensor)?,
        }
        Ok(SavedVariable::Kept(tensor))
    }
}
