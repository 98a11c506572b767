//! What `to_copy` does to memory.

use crate::meta::{DType, TensorMeta};
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, RuleContext, ShapeError};

/// A copy in another element type: a cast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToCopy {
    /// The type to cast to.
    pub dtype: DType,
}

impl OpRule for ToCopy {
    fn name(&self) -> &'static str {
        "to_copy"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![cast(&inputs[0], self.dtype)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        elementwise::forward(&cast(&inputs[0], self.dtype), &[], false)
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let out = cast(incoming, inputs[0].dtype);
        let slot = r.tensor(&out);
        r.backward(vec![Gradient::New(slot, out)])
    }
}

/// A cast leaves dimensions in the order in which they lie.
fn cast(x: &TensorMeta, dtype: DType) -> TensorMeta {
    TensorMeta { dtype, ..x.dense() }
}
