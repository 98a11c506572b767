//! What `mean_last` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, ShapeError};

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

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let x = &inputs[0];
        let mut reduced = vec![false; x.shape.rank()];
        *reduced.last_mut().expect("infer refuses scalars") = true;
        let mut r = Recipe::new();
        let out = Reduction::new(x, &reduced, x.dtype).run(&mut r, cx.gpu);
        let shape = x.shape.with_last(1).expect("a smaller shape fits");
        r.forward(vec![Output::New(out, TensorMeta::contiguous(shape, x.dtype))])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward(inputs, needs) // the spread gradient is divided, so it is written out
    }
}
