//! What `layer_norm` does to memory.

use crate::meta::TensorMeta;
use crate::ops::row_norm::{self, Statistics};
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, normalised_last, same_as_first};

/// Layer normalisation over the last dimension. Inputs: x, weight, bias if `bias`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    /// Whether there is a bias: the third input.
    pub bias: bool,
    /// Added to the variance.
    pub eps: f64,
}

impl OpRule for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        normalised_last(self.name(), &inputs[0].shape, &inputs[1..])?;
        same_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        row_norm::forward(inputs, needs, Statistics::MeanAndRstd)
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        row_norm::backward(cx.gpu, inputs, grads[0].as_ref(), needs)
    }
}
