//! What `nll_loss` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, same_as_first};

/// Mean negative log likelihood. Inputs: log-probabilities (rows, classes), class indices (rows).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NllLoss;

impl OpRule for NllLoss {
    fn name(&self) -> &'static str {
        "nll_loss"
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
