//! What `div_scalar` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, same_as_first};

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
        same_as_first(inputs)
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
