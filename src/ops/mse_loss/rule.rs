//! What `mse_loss` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, same_shape, scalar_of};

/// Mean squared error. Inputs: x, target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MseLoss;

impl OpRule for MseLoss {
    fn name(&self) -> &'static str {
        "mse_loss"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        same_shape(self.name(), &inputs[0].shape, &inputs[1].shape)?;
        scalar_of(inputs[0].dtype)
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
