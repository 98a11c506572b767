//! What `transpose` does to memory.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// Two dimensions exchanged: a view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transpose {
    /// The one.
    pub first: usize,
    /// The other.
    pub second: usize,
}

impl OpRule for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        if self.first.max(self.second) >= inputs[0].shape.rank() {
            return Err(ShapeError { message: format!("{} has no dimensions {} and {}", inputs[0].shape, self.first, self.second) });
        }
        Ok(vec![inputs[0].transposed(self.first, self.second)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        Recipe::new().forward(vec![Output::View(0, inputs[0].transposed(self.first, self.second))])
    }

    fn backward(&self, _: RuleContext<'_>, _: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let gradient = match (&grads[0], needs[0]) {
            (Some(incoming), true) => Gradient::View(0, incoming.transposed(self.first, self.second)),
            _ => Gradient::None,
        };
        Recipe::new().backward(vec![gradient])
    }
}
