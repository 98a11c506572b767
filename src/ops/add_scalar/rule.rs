//! What `add_scalar` does to memory.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// Addition of a number, in place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddScalar {
    /// The number.
    pub value: f64,
}

impl OpRule for AddScalar {
    fn name(&self) -> &'static str {
        "add_scalar"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![inputs[0].clone()])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        Recipe::new().forward(vec![Output::InPlace(0, inputs[0].clone())])
    }

    fn backward(&self, _: RuleContext<'_>, _: &[TensorMeta], _: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        Recipe::new().backward(vec![if needs[0] { Gradient::Same(0) } else { Gradient::None }])
    }
}
