//! What `mul` does to memory.

use crate::meta::TensorMeta;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, broadcast, promote};

/// `left · right`, the right one broadcast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mul;

impl OpRule for Mul {
    fn name(&self) -> &'static str {
        "mul"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let out = broadcast(self.name(), &inputs[0].shape, &inputs[1].shape)?;
        Ok(vec![TensorMeta::contiguous(out, promote(inputs[0].dtype, inputs[1].dtype))])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
