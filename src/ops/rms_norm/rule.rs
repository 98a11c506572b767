//! What `rms_norm` does to memory.

use crate::meta::TensorMeta;
use crate::ops::row_norm::{self, Statistics};
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, normalised_last, same_as_first};

/// Root-mean-square normalisation over the last dimension, fused. Inputs: x, weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f64,
}

impl OpRule for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        normalised_last(self.name(), &inputs[0].shape, &inputs[1..])?;
        same_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        row_norm::forward(inputs, needs, Statistics::Rstd)
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        row_norm::backward(cx.gpu, inputs, grads[0].as_ref(), needs)
    }
}
