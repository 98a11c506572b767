//! What `sum` does to memory.

use crate::meta::{DType, TensorMeta};
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError, scalar_of};

/// Sum of all elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sum {
    /// A half input gives an f32 sum in one pass (autocast's fused cast).
    pub to_f32: bool,
}

impl OpRule for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        scalar_of(if self.to_f32 && inputs[0].dtype.is_half() { DType::F32 } else { inputs[0].dtype })
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        todo!()
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        todo!()
    }
}
