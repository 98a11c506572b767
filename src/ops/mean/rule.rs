//! What `mean` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, ShapeError, scalar_of};

/// Mean of all elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean;

impl OpRule for Mean {
    fn name(&self) -> &'static str {
        "mean"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        scalar_of(inputs[0].dtype)
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let mut r = Recipe::new();
        let out = Reduction::all(&inputs[0], inputs[0].dtype).run(&mut r, cx.gpu);
        r.forward(vec![Output::New(out, TensorMeta::scalar(inputs[0].dtype))])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward(inputs, needs) // the spread gradient is divided, so it is written out
    }
}
