//! What `dropout` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError, dense_as_first};

/// Dropout: zeroes with probability `p` and scales the rest. The input itself where not training or p is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability of a zero.
    pub p: f64,
    /// `dropout_`: another algorithm in PyTorch, with another memory rule.
    pub inplace: bool,
    /// Whether the module is in training mode.
    pub training: bool,
}

impl Dropout {
    /// Whether PyTorch returns its argument untouched.
    const fn is_identity(&self) -> bool {
        !self.training || self.p == 0.0
    }

    /// Whether `native_dropout` does the work: a mask of one byte a value. In place, and where everything is dropped, PyTorch
    /// multiplies instead.
    fn is_fused(&self) -> bool {
        !self.inplace && self.p < 1.0
    }
}

impl OpRule for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        dense_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let x = &inputs[0];
        let mut r = Recipe::new();
        if self.is_identity() {
            return r.forward(vec![Output::Same(0)]);
        }
        if self.is_fused() {
            let mask = r.alloc(x.numel());
            let out = r.tensor(&x.dense());
            r.keep_or_free(mask, needs[0]);
            return r.forward(vec![Output::New(out, x.dense())]);
        }
        // A product with a tensor of scaled ones and zeros (one zero, where everything is dropped).
        let noise = if self.p < 1.0 { r.tensor(&x.dense()) } else { r.alloc(x.dtype.bytes()) };
        r.keep(Saved::Slot(noise), needs[0]);
        let out = if self.inplace { Output::InPlace(0, x.clone()) } else { Output::New(r.tensor(&x.dense()), x.dense()) };
        if !needs[0] {
            r.free(noise);
        }
        r.forward(vec![out])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        if self.is_identity() {
            return Recipe::new().backward(vec![if needs[0] { Gradient::Same(0) } else { Gradient::None }]);
        }
        if self.is_fused() {
            return elementwise::backward(inputs, needs);
        }
        let (incoming, x) = (elementwise::incoming(grads), inputs[0].dense());
        let noise = if self.p < 1.0 { x } else { TensorMeta::scalar(x.dtype) };
        elementwise::backward_over(&[incoming, &noise], inputs, needs)
    }
}
