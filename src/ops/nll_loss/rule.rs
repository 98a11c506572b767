//! What `nll_loss` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, scalar_of};

/// Mean negative log likelihood. Inputs: log-probabilities (rows, classes), class indices (rows).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NllLoss;

impl OpRule for NllLoss {
    fn name(&self) -> &'static str {
        "nll_loss"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let (log, target) = (&inputs[0].shape, &inputs[1].shape);
        if log.rank() != 2 || target.dims() != &log.dims()[..1] {
            return Err(ShapeError { message: format!("nll_loss needs [rows, classes] and [rows], got {log} and {target}") });
        }
        scalar_of(inputs[0].dtype)
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
