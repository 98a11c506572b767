//! What `div_scalar` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, dense_as_first};

/// Division by a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DivScalar {
    /// The number.
    pub divisor: f64,
}

impl OpRule for DivScalar {
    fn name(&self) -> &'static str {
        "div_scalar"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        dense_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        elementwise::forward(&inputs[0].dense(), &[], false)
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_over(&[elementwise::incoming(grads)], inputs, needs)
    }
}
