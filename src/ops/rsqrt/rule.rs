//! What `rsqrt` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, Saved, ShapeError, dense_as_first};

/// `1 / √x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rsqrt;

impl OpRule for Rsqrt {
    fn name(&self) -> &'static str {
        "rsqrt"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        dense_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        elementwise::forward(&inputs[0].dense(), &[Saved::Output(0)], needs[0])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        elementwise::backward_of_three(&[elementwise::incoming(grads), &inputs[0].dense()], inputs, needs) // (−½ · gradient) · result³
    }
}
