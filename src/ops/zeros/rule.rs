//! What `zeros` does to memory.

use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, ShapeError};

/// A tensor of zeros. No inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Zeros {
    /// Its shape.
    pub shape: Shape,
    /// Its type.
    pub dtype: DType,
}

impl OpRule for Zeros {
    fn name(&self) -> &'static str {
        "zeros"
    }

    fn infer(&self, _: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![TensorMeta::contiguous(self.shape.clone(), self.dtype)])
    }

    fn forward(&self, _: RuleContext<'_>, _: &[TensorMeta], _: &[bool]) -> Forward {
        let out = TensorMeta::contiguous(self.shape.clone(), self.dtype);
        let mut r = Recipe::new();
        let slot = r.tensor(&out);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, _: &[TensorMeta], _: &[Option<TensorMeta>], _: &[bool]) -> Backward {
        Recipe::new().backward(Vec::new())
    }
}
