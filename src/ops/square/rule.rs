//! What `square` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, Saved, ShapeError, same_as_first};

/// `x²` (`pow(x, 2)`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Square;

impl OpRule for Square {
    fn name(&self) -> &'static str {
        "square"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        same_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        elementwise::forward(&inputs[0].like(), &[Saved::Input(0)], needs[0])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_of_three(inputs, needs) // gradient · (2 · x¹)
    }
}
