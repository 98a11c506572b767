//! What `copy_into` does to memory: nothing but in backward, where PyTorch's `CopyBackwards` casts the gradient.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// Copies a tensor into a part of a flat buffer, in the buffer's type, as autocast does with each weight of a recurrent network. Inputs:
/// the buffer, which requires no gradient, and the tensor. Output: the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyInto {
    /// Where the part begins in the buffer, in elements.
    pub offset: u64,
}

impl OpRule for CopyInto {
    fn name(&self) -> &'static str {
        "copy_into"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let (buffer, copied) = (&inputs[0], &inputs[1]);
        if buffer.shape.rank() != 1 || self.offset.checked_add(copied.numel()).is_none_or(|end| end > buffer.numel()) {
            let message = format!("a tensor of shape {} does not fit into {} from {} on", copied.shape, buffer.shape, self.offset);
            return Err(ShapeError { message });
        }
        Ok(vec![copied.like().with_dtype(buffer.dtype)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let part = self.infer(inputs).expect("infer has succeeded").remove(0);
        Recipe::new().forward(vec![Output::Alias(0, part)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[1]) else { return r.backward(vec![Gradient::None; 2]) };
        let dtype = inputs[1].dtype;
        if incoming.dtype == dtype {
            return r.backward(vec![Gradient::None, Gradient::Same(0)]);
        }
        let cast = incoming.dense().with_dtype(dtype);
        let slot = r.tensor(&cast);
        r.backward(vec![Gradient::None, Gradient::New(slot, cast)])
    }
}
