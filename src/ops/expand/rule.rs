//! What `expand` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::{Raw, Recipe};
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError, broadcast};

/// Dimensions of size 1 spread over more places: a view.
#[derive(Debug, Clone, PartialEq)]
pub struct Expand {
    /// The whole output shape.
    pub shape: Shape,
}

impl OpRule for Expand {
    fn name(&self) -> &'static str {
        "expand"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        if broadcast(self.name(), &inputs[0].shape, &self.shape)? != self.shape {
            return Err(ShapeError { message: format!("a tensor of shape {} does not expand to {}", inputs[0].shape, self.shape) });
        }
        Ok(vec![inputs[0].broadcast_to(&self.shape)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        Recipe::new().forward(vec![Output::View(0, inputs[0].broadcast_to(&self.shape))])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let gradient = r.fit(cx.gpu, Raw::same(0, incoming.clone()), &inputs[0]);
        r.backward(vec![gradient])
    }
}
