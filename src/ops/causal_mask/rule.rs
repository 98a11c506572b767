//! What `causal_mask` does to memory.

use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, ShapeError};

/// What is added to attention's scores so that a position sees none behind it: 0, or -∞ above the diagonal. It has no inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CausalMask {
    /// Positions.
    pub length: u64,
    /// The scores' type.
    pub dtype: DType,
}

impl CausalMask {
    fn shape(&self) -> Result<Shape, ShapeError> {
        Ok(Shape::new([self.length, self.length])?)
    }
}

impl OpRule for CausalMask {
    fn name(&self) -> &'static str {
        "causal_mask"
    }

    fn infer(&self, _: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![TensorMeta::contiguous(self.shape()?, self.dtype)])
    }

    /// A lower triangle of ones, of truth values, chooses between two scalars.
    fn forward(&self, _: RuleContext<'_>, _: &[TensorMeta], _: &[bool]) -> Forward {
        let mask = TensorMeta::contiguous(self.shape().expect("infer has succeeded"), self.dtype);
        let mut r = Recipe::new();
        let (ones, triangle) = (r.alloc(mask.numel()), r.alloc(mask.numel()));
        r.free(ones);
        let (infinity, zero) = (r.alloc(self.dtype.bytes()), r.alloc(self.dtype.bytes()));
        let out = r.tensor(&mask);
        [zero, infinity, triangle].into_iter().for_each(|slot| r.free(slot));
        r.forward(vec![Output::New(out, mask)])
    }

    fn backward(&self, _: RuleContext<'_>, _: &[TensorMeta], _: &[Option<TensorMeta>], _: &[bool]) -> Backward {
        Recipe::new().backward(Vec::new())
    }
}
