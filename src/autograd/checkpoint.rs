//! Non-reentrant checkpoints, after `torch/utils/checkpoint.py`: inside a region nodes keep places instead of tensors. The first place
//! that backward asks for makes the region run again, up to the last tensor that it packed; each recomputed tensor leaves its place
//! as it is asked for.
//!
//! A region's input is packed like any tensor, so in a region within a region it is a place of the outer one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use super::node::Edge;
use super::saved::SavedVariable;
use super::tape::{Halt, Hook, Tape};
use super::variable::Variable;
use crate::exec::{Exec, Result, Stream};
use crate::tensor::Tensor;

/// What runs again in backward.
pub trait Region {
    /// Runs the region on its input, on a tape that stops it when nothing more is needed.
    ///
    /// # Errors
    /// [`Halt::Stop`] is passed on from the tape.
    fn run(&self, exec: &Exec, tape: &Tape, input: Variable) -> std::result::Result<(), Halt>;
}

/// A place for a recomputed tensor.
#[derive(Debug, Default)]
pub(super) struct Holder {
    tensor: RefCell<Option<Tensor>>,
}

/// One pass through a checkpointed region. It lives as long as a node of the region keeps a place.
pub(super) struct Frame {
    input: SavedVariable,
    input_edge: Option<Edge>,
    region: Rc<dyn Region>,
    /// Where random numbers stood when the region ran.
    random: Stream,
    /// Every place that the region packed, in order; gone where its node is.
    holders: RefCell<Vec<Weak<Holder>>>,
    /// Tensors packed so far by the recomputation.
    recomputed: Cell<usize>,
    is_recomputed: Cell<bool>,
}

impl Frame {
    pub(super) fn new(input: SavedVariable, input_edge: Option<Edge>, region: Rc<dyn Region>, random: Stream) -> Self {
        Self { input, input_edge, region, random, holders: RefCell::default(), recomputed: Cell::new(0), is_recomputed: Cell::new(false) }
    }

    /// Lets go of the input; nodes that nothing else holds are left for the caller to drop.
    pub(super) fn dismantle(self, pending: &mut Vec<Edge>) {
        pending.extend(self.input_edge);
        self.input.dismantle(pending);
    }

    /// A place for one more tensor.
    pub(super) fn hold(self: &Rc<Self>) -> SavedVariable {
        let holder = Rc::new(Holder::default());
        self.holders.borrow_mut().push(Rc::downgrade(&holder));
        SavedVariable::Recomputed(holder, Rc::clone(self))
    }

    /// Puts a recomputed tensor in the next place; stops the recomputation at the last.
    pub(super) fn fill(&self, tensor: Tensor) -> std::result::Result<(), Halt> {
        let holders = self.holders.borrow();
        let index = self.recomputed.get();
        self.recomputed.set(index + 1);
        if let Some(holder) = holders[index].upgrade() {
            holder.tensor.replace(Some(tensor));
        }
        if index + 1 == holders.len() { Err(Halt::Stop) } else { Ok(()) }
    }

    pub(super) fn unpack(self: &Rc<Self>, holder: &Holder, exec: &Exec, tape: &Tape) -> Result<Tensor> {
        if !self.is_recomputed.get() {
            let input = self.input.unpack(exec, tape)?.expect("a region's input is always packed");
            let input = Variable::with_edge(input, self.input_edge.clone());
            // `preserve_rng_state`: the same numbers again, and afterwards those that would have come.
            let next = exec.generator().state();
            exec.generator().set_state(self.random);
            let done = tape.hooked(Hook::Fill(Rc::clone(self)), || self.region.run(exec, tape, input));
            exec.generator().set_state(next);
            match done {
                Ok(()) | Err(Halt::Stop) => self.is_recomputed.set(true),
                Err(Halt::OutOfMemory(e)) => return Err(e),
            }
        }
        Ok(holder.tensor.take().expect("a recomputation packs what the forward pass packed, and each is asked for once"))
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("packed", &self.holders.borrow().len()).finish_non_exhaustive()
    }
}
