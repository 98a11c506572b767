//! What `mean_last` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError};

/// Mean over the last dimension, kept as size 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLast;

impl OpRule for MeanLast {
    fn name(&self) -> &'static str {
        "mean_last"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        if inputs[0].shape.rank() == 0 {
            return Err(ShapeError { message: "mean_last needs a dimension to reduce, got a scalar".to_owned() });
        }
        Ok(vec![TensorMeta::contiguous(inputs[0].shape.with_last(1)?, inputs[0].dtype)])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
