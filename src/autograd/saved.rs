//! Saved variables: what a node keeps for backward. Inside a checkpointed region that is only a place, filled by recomputing.

use std::rc::Rc;

use super::checkpoint::{Frame, Holder};
use super::tape::Tape;
use crate::exec::{Exec, Result};
use crate::tensor::Tensor;

/// One saved tensor.
#[derive(Debug)]
pub(super) enum SavedVariable {
    /// Nothing had to be saved in this place.
    Nothing,
    /// The tensor.
    Kept(Tensor),
    /// A place in a checkpointed region's frame.
    Recomputed(Rc<Holder>, Rc<Frame>),
}

impl SavedVariable {
    /// The tensor, recomputing its region if this is the first to ask.
    pub(super) fn unpack(&self, exec: &Exec, tape: &Tape) -> Result<Option<Tensor>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Kept(tensor) => Ok(Some(tensor.clone())),
            Self::Recomputed(holder, frame) => frame.unpack(holder, exec, tape).map(Some),
        }
    }
}
