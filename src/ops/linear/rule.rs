//! What `linear` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, same_as_first};

/// `x · weightᵀ + bias`: PyTorch's `addmm` with a bias, `mm` without. Inputs: x, weight (out, in), bias if `bias`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    /// Whether there is a bias: the third input.
    pub bias: bool,
}

impl OpRule for Linear {
    fn name(&self) -> &'static str {
        "linear"
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
