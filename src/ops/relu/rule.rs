//! What `relu` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, Saved, ShapeError, dense_as_first};

/// `max(x, 0)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relu {
    /// Write into the input's storage.
    pub inplace: bool,
}

impl OpRule for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        dense_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        if !self.inplace {
            return elementwise::forward(&inputs[0].dense(), &[Saved::Output(0)], needs[0]);
        }
        let mut r = Recipe::new();
        r.keep(Saved::Output(0), needs[0]);
        r.forward(vec![Output::InPlace(0, inputs[0].clone())])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_over(&[&inputs[0].dense(), elementwise::incoming(grads)], inputs, needs)
    }
}
