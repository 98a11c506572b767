//! What `bce_with_logits` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, Saved, ShapeError, same_shape, scalar_of};

/// Mean binary cross entropy of logits. Inputs: x, target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BceWithLogits;

impl OpRule for BceWithLogits {
    fn name(&self) -> &'static str {
        "bce_with_logits"
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
        let log_sigmoid = r.tensor(&x.like());
        let losses = r.tensor(&x.like());
        let out = Reduction::all(&x.like(), x.dtype).run(&mut r, cx.gpu);
        r.free(losses);
        r.free(log_sigmoid);
        r.forward(vec![Output::New(out, TensorMeta::scalar(x.dtype))])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_over(&[&inputs[0], &inputs[1]], inputs, needs)
    }
}
