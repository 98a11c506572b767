//! What `mul_scalar` does to memory.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// Multiplication by a number. Dimensions stay in the order in which they lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MulScalar {
    /// The number.
    pub factor: f64,
}

impl OpRule for MulScalar {
    fn name(&self) -> &'static str {
        "mul_scalar"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![inputs[0].dense()])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let mut r = Recipe::new();
        let out = inputs[0].dense();
        let slot = r.tensor(&out);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, _: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let out = incoming.dense();
        let slot = r.tensor(&out);
        r.backward(vec![Gradient::New(slot, out)])
    }
}
