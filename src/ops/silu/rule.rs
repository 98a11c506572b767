//! What `silu` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, Saved, ShapeError, dense_as_first};

/// `x · sigmoid(x)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Silu {
    /// Write into the input's storage.
    pub inplace: bool,
}

impl OpRule for Silu {
    fn name(&self) -> &'static str {
        "silu"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        dense_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        if !self.inplace {
            return elementwise::forward(&inputs[0].dense(), &[Saved::Input(0)], needs[0]);
        }
        // Backward needs the input that is about to be written over, so autograd clones it first.
        let mut r = Recipe::new();
        if needs[0] {
            let original = r.tensor(&inputs[0]);
            r.keep(Saved::Slot(original), true);
        }
        r.forward(vec![Output::InPlace(0, inputs[0].clone())])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_over(&[elementwise::incoming(grads), &inputs[0]], inputs, needs)
    }
}
