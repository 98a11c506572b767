//! What `mul_scalar` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, dense_as_first};

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
        dense_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        elementwise::forward(&inputs[0].dense(), &[], false)
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_over(&[elementwise::incoming(grads)], inputs, needs)
    }
}
