//! What `mse_loss` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, Saved, ShapeError, same_shape, scalar_of};

/// Mean squared error. Inputs: x, target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MseLoss;

impl OpRule for MseLoss {
    fn name(&self) -> &'static str {
        "mse_loss"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        same_shape(self.name(), &inputs[0].shape, &inputs[1].shape)?;
        scalar_of(inputs[0].dtype)
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let x = &inputs[0];
        let mut r = Recipe::new();
        r.keep(Saved::Input(0), needs[0]);
        r.keep(Saved::Input(1), needs[0]);
        // The result is made at the input's size and then shrunk to a scalar: its storage stays large for as long as it lives.
        let out = r.tensor(&x.like());
        let squares = r.tensor(&x.like());
        Reduction::all(&x.like(), x.dtype).scratch_into(&mut r, cx.gpu);
        r.free(squares);
        r.forward(vec![Output::New(out, TensorMeta::scalar(x.dtype))])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward(inputs, needs)
    }
}
