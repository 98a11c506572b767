//! What `softmax` does to memory.

use crate::meta::{DType, TensorMeta};
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError};

/// Softmax over the last dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Softmax {
    /// An f16 input gives an f32 output in one pass (autocast's fused cast).
    pub to_f32: bool,
}

impl OpRule for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        Ok(vec![if self.to_f32 && x.dtype.is_half() { x.with_dtype(DType::F32) } else { x.like() }])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
