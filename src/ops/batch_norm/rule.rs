//! What `batch_norm` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, same_as_first};

/// Batch normalisation. Inputs: x, weight, bias, running_mean, running_var, num_batches_tracked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNorm {
    /// Use the batch's statistics and update the running ones.
    pub training: bool,
    /// Weight of the batch in the running statistics.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
}

impl OpRule for BatchNorm {
    fn name(&self) -> &'static str {
        "batch_norm"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0].shape;
        if !matches!(x.rank(), 2..=4) {
            return Err(ShapeError { message: format!("batch_norm needs two to four dimensions (batch first), got {x}") });
        }
        if let Some(p) = inputs[1..5].iter().find(|p| p.shape.dims() != &x.dims()[1..2]) {
            return Err(ShapeError { message: format!("batch_norm over {} channels of {x} does not go with a tensor of shape {}", x.dims()[1], p.shape) });
        }
        same_as_first(inputs)
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
