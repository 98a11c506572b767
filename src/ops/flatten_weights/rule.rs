//! What `flatten_weights` does to memory: autocast's cast of a recurrent network's weights, for each call anew.

use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// All weights of a recurrent network in one buffer. Inputs: the weights.
#[derive(Debug, Clone, PartialEq)]
pub struct FlattenWeights {
    /// The buffer's type.
    pub dtype: DType,
    /// Where each weight begins in it, in elements.
    pub offsets: Vec<u64>,
}

impl OpRule for FlattenWeights {
    fn name(&self) -> &'static str {
        "flatten_weights"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        if inputs.len() != self.offsets.len() {
            return Err(ShapeError { message: format!("{} weights have {} places", inputs.len(), self.offsets.len()) });
        }
        let elements = inputs.iter().map(TensorMeta::numel).sum::<u64>();
        Ok(vec![TensorMeta::contiguous(Shape::new([elements])?, self.dtype)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let mut r = Recipe::new();
        let slot = r.tensor(&out);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let mut gradients = vec![Gradient::None; inputs.len()];
        // Each was copied in by an operator of its own, the last of which comes first.
        for (i, input) in inputs.iter().enumerate().rev().filter(|&(i, _)| needs[i]) {
            gradients[i] = Gradient::New(r.tensor(&input.like()), input.like());
        }
        r.backward(gradients)
    }
}
