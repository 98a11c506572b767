//! What `view` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

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

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        Recipe::new().forward(vec![Output::View(0, TensorMeta::contiguous(self.shape.clone(), inputs[0].dtype))])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let shape = inputs[0].shape.clone();
        // `reshape`: a view wherever strides allow one.
        let gradient = if incoming.is_contiguous() {
            Gradient::View(0, TensorMeta::contiguous(shape, incoming.dtype))
        } else if incoming.is_expanded_scalar() {
            Gradient::View(0, TensorMeta::expanded(shape, incoming.dtype))
        } else {
            let out = TensorMeta::contiguous(shape, incoming.dtype);
            Gradient::New(r.tensor(&out), out)
        };
        r.backward(vec![gradient])
    }
}
