//! What `view` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, same_as_first};

/// The same elements in another shape; no memory of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The whole output shape, batch included.
    pub shape: Shape,
}

impl OpRule for View {
    fn name(&self) -> &'static str {
        "view"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        same_as_first(inputs)
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
