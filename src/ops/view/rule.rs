//! What `view` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::{Raw, Recipe};
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// The same elements in another shape; no memory of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The whole output shape, batch included.
    pub shape: Shape,
    /// `_unsafe_view`: autograd does not know the result for a view, so that what writes into it does not write through it.
    pub hidden: bool,
}

impl View {
    /// A view as `Tensor.view` makes it.
    #[must_use]
    pub const fn plain(shape: Shape) -> Self {
        Self { shape, hidden: false }
    }

    fn output(&self, x: &TensorMeta) -> Result<TensorMeta, ShapeError> {
        if self.shape.numel() != x.numel() {
            return Err(ShapeError { message: format!("a tensor of shape {} cannot be viewed as {}", x.shape, self.shape) });
        }
        x.viewed(&self.shape).ok_or_else(|| ShapeError {
            message: format!("a tensor of shape {} and strides {:?} has no view of shape {}", x.shape, x.strides, self.shape),
        })
    }
}

impl OpRule for View {
    fn name(&self) -> &'static str {
        "view"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![self.output(&inputs[0])?])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let out = self.output(&inputs[0]).expect("infer has succeeded");
        Recipe::new().forward(vec![if self.hidden { Output::Alias(0, out) } else { Output::View(0, out) }])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let gradient = r.reshaped(Raw::same(0, incoming.clone()), &inputs[0].shape);
        r.backward(vec![gradient])
    }
}
