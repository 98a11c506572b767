//! What `slice` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, ShapeError};

/// The first places of a dimension: `x[..., :length, ...]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// The dimension.
    pub dim: usize,
    /// How many places.
    pub length: u64,
}

impl OpRule for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        let mut dims = x.shape.dims().to_vec();
        match dims.get_mut(self.dim) {
            Some(d) if self.length <= *d => *d = self.length,
            _ => return Err(ShapeError { message: format!("{} has no {} places along dimension {}", x.shape, self.length, self.dim) }),
        }
        Ok(vec![TensorMeta { shape: Shape::new(dims)?, ..x.clone() }])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        Recipe::new().forward(vec![Output::View(0, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        Recipe::new().part_backward(&inputs[0], grads[0].as_ref().filter(|_| needs[0]))
    }
}
