//! What `linear` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError};

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
        let (x, weight) = (&inputs[0], &inputs[1]);
        let (out, features) = match *weight.shape.dims() {
            [out, features] => (out, features),
            _ => return Err(ShapeError { message: format!("linear needs a weight of two dimensions, got {}", weight.shape) }),
        };
        if x.shape.rank() == 0 || x.shape.last() != features {
            return Err(ShapeError {
                message: format!("linear of weight {} needs {features} features last, but its input has shape {}", weight.shape, x.shape),
            });
        }
        if self.bias && inputs[2].shape.dims() != [out] {
            return Err(ShapeError {
                message: format!("linear of weight {} needs a bias of shape [{out}], got {}", weight.shape, inputs[2].shape),
            });
        }
        Ok(vec![TensorMeta::contiguous(x.shape.with_last(out)?, x.dtype)])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
