//! What `select` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, ShapeError};

/// One place of a dimension, which goes: `x[:, index]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Select {
    /// The dimension.
    pub dim: usize,
    /// The place.
    pub index: u64,
}

impl OpRule for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        let (mut dims, mut strides) = (x.shape.dims().to_vec(), x.strides.clone());
        if dims.get(self.dim).is_none_or(|&d| self.index >= d) {
            return Err(ShapeError { message: format!("{} has no place {} along dimension {}", x.shape, self.index, self.dim) });
        }
        dims.remove(self.dim);
        strides.remove(self.dim);
        Ok(vec![TensorMeta { shape: Shape::new(dims)?, dtype: x.dtype, strides }])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        Recipe::new().forward(vec![Output::View(0, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        Recipe::new().part_backward(&inputs[0], grads[0].as_ref().filter(|_| needs[0]))
    }
}
