//! What `view` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError};

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
        if self.shape.numel() != inputs[0].numel() {
            return Err(ShapeError { message: format!("a tensor of shape {} cannot be viewed as {}", inputs[0].shape, self.shape) });
        }
        Ok(vec![TensorMeta::contiguous(self.shape.clone(), inputs[0].dtype)])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
