//! Saved variables: what a node keeps for backward. Inside a checkpointed region that is only a place, filled by recomputing.

use std::rc::Rc;

use super::checkpoint::{Frame, Holder};
use super::node::Edge;
use super::tape::Tape;
use super::variable::Variable;
use crate::exec::{Exec, Result};
use crate::tensor::Tensor;

/// One saved tensor.
#[derive(Debug)]
pub(super) enum SavedVariable {
    /// Nothing had to be saved in this place.
    Nothing,
    /// An input, with its history: where an operator in place writes into it later, that history leads back here, and the graph
    /// keeps itself alive. PyTorch leaks it so too.
    Input(Variable),
    /// A tensor that the operator made, without a history.
    Made(Tensor),
    /// A place in a checkpointed region's frame.
    Recomputed(Rc<Holder>, Rc<Frame>),
}

impl SavedVariable {
    /// The tensor, where it is at hand.
    pub(super) const fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Input(variable) => Some(&variable.tensor),
            Self::Made(tensor) => Some(tensor),
            Self::Nothing | Self::Recomputed(..) => None,
        }
    }

    /// Lets go of the tensor; nodes that nothing else holds are left for the caller to drop.
    pub(super) fn dismantle(self, pending: &mut Vec<Edge>) {
        match self {
            Self::Input(variable) => variable.dismantle(pending),
            Self::Recomputed(_, frame) => {
                if let Some(frame) = Rc::into_inner(frame) {
                    frame.dismantle(pending);
                }
            }
            Self::Nothing | Self::Made(_) => {}
        }
    }

    /// The tensor, recomputing its region if this is the first to ask.
    pub(super) fn unpack(&self, exec: &Exec, tape: &Tape) -> Result<Option<Tensor>> {
        match self {
            Self::Recomputed(holder, frame) => frame.unpack(holder, exec, tape).map(Some),
            other => Ok(other.tensor().cloned()),
        }
    }
}
