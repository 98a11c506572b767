//! What `softmax` does to memory.

use crate::meta::{DType, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError};

/// Softmax over the last dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Softmax {
    /// An f16 input gives an f32 output in one pass (autocast's fused cast).
    pub to_f32: bool,
    /// `_safe_softmax`: rows of nothing but -∞ become zeros. PyTorch looks for them in truth values.
    pub safe: bool,
}

impl Softmax {
    /// As `torch.softmax` computes it.
    #[must_use]
    pub const fn plain(to_f32: bool) -> Self {
        Self { to_f32, safe: false }
    }
}

impl OpRule for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        Ok(vec![if self.to_f32 && x.dtype.is_half() { x.with_dtype(DType::F32) } else { x.like() }])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let out = if self.to_f32 && inputs[0].dtype.is_half() { inputs[0].with_dtype(DType::F32) } else { inputs[0].like() };
        let mut r = Recipe::new();
        let slot = r.tensor(&out);
        if !inputs[0].is_contiguous() {
            r.temporary(inputs[0].bytes()); // a copy whose rows lie together
        }
        if !self.safe {
            r.keep(Saved::Output(0), needs[0]);
            return r.forward(vec![Output::New(slot, out)]);
        }
        let (masked, rows, zero) = (r.alloc(out.numel()), r.alloc(out.shape.rows()), r.alloc(out.dtype.bytes()));
        [zero, rows, masked].into_iter().for_each(|s| r.free(s));
        r.keep(Saved::Output(0), needs[0]);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let out = r.tensor(&inputs[0].like());
        // gradient · output, and a copy of that whose rows lie together.
        let product = TensorMeta::over(incoming.shape.clone(), incoming.dtype, &[incoming, &inputs[0].like()]);
        let slot = r.tensor(&product);
        if !product.is_contiguous() {
            r.temporary(product.bytes());
        }
        r.free(slot);
        r.backward(vec![Gradient::New(out, inputs[0].like())])
    }
}
