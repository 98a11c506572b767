//! What `contiguous` does to memory.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError, same_as_first};

/// The tensor itself where it is contiguous, else a contiguous copy (`clone`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contiguous;

impl OpRule for Contiguous {
    fn name(&self) -> &'static str {
        "contiguous"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        same_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let mut r = Recipe::new();
        if inputs[0].is_contiguous() {
            return r.forward(vec![Output::Same(0)]);
        }
        let copy = r.tensor(&inputs[0].like());
        r.forward(vec![Output::New(copy, inputs[0].like())])
    }

    fn backward(&self, _: RuleContext<'_>, _: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        Recipe::new().backward(vec![if needs[0] { Gradient::Same(0) } else { Gradient::None }])
    }
}
