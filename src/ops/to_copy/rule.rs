//! What `to_copy` does to memory.

use crate::meta::{DType, TensorMeta};
use crate::ops::elementwise;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, ShapeError};

/// A copy in another element type: a cast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToCopy {
    /// The type to cast to.
    pub dtype: DType,
}

impl OpRule for ToCopy {
    fn name(&self) -> &'static str {
        "to_copy"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![inputs[0].with_dtype(self.dtype)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        elementwise::forward(&inputs[0].with_dtype(self.dtype), &[], false)
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward(inputs, needs)
    }
}
