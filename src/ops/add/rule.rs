//! What `add` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, broadcast, promote, same_as_first};

/// `left + right`, broadcast where sizes differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Add {
    /// `left += right`.
    pub inplace: bool,
}

impl OpRule for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let out = broadcast(self.name(), &inputs[0].shape, &inputs[1].shape)?;
        if self.inplace && out != inputs[0].shape {
            return Err(ShapeError {
                message: format!("an in-place add of shape {} cannot take a sum of shape {out} (the other side is {})", inputs[0].shape, inputs[1].shape),
            });
        }
        if self.inplace {
            return same_as_first(inputs);
        }
        Ok(vec![TensorMeta::contiguous(out, promote(inputs[0].dtype, inputs[1].dtype))])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
