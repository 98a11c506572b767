//! What `pad_last` does to memory.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// Zeros behind the last dimension (`constant_pad_nd`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PadLast {
    /// The last dimension's size afterwards.
    pub size: u64,
}

impl OpRule for PadLast {
    fn name(&self) -> &'static str {
        "pad_last"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        if x.shape.rank() == 0 || x.shape.last() > self.size {
            return Err(ShapeError { message: format!("a tensor of shape {} cannot be filled up to {}", x.shape, self.size) });
        }
        Ok(vec![TensorMeta::contiguous(x.shape.with_last(self.size)?, x.dtype)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let mut r = Recipe::new();
        let slot = r.tensor(&out);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        // A copy of the part that is not filled up, its dimensions in the order in which they lie.
        let out = TensorMeta { shape: inputs[0].shape.clone(), ..incoming.clone() }.dense();
        let slot = r.tensor(&out);
        r.backward(vec![Gradient::New(slot, out)])
    }
}
