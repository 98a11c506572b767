//! What `nll_loss` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, Saved, ShapeError, scalar_of};

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

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let dtype = inputs[0].dtype;
        let mut r = Recipe::new();
        r.keep(Saved::Input(0), needs[0]);
        r.keep(Saved::Input(1), needs[0]);
        let out = r.alloc(dtype.bytes());
        let total_weight = r.alloc(dtype.bytes());
        r.keep_or_free(total_weight, needs[0]);
        r.forward(vec![Output::New(out, TensorMeta::scalar(dtype))])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward(inputs, needs)
    }
}
