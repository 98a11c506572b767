//! What `gelu` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, Saved, ShapeError, dense_as_first};

/// Gaussian error linear unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gelu {
    /// The tanh approximation instead of the exact form.
    pub tanh: bool,
}

impl OpRule for Gelu {
    fn name(&self) -> &'static str {
        "gelu"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        dense_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        elementwise::forward(&inputs[0].dense(), &[Saved::Input(0)], needs[0])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_over(&[elementwise::incoming(grads), &inputs[0]], inputs, needs)
    }
}
