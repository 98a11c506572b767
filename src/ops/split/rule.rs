//! What `split` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError};

/// Parts of the last dimension, one after another: views.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// The parts' sizes. They add up to the whole.
    pub sizes: Vec<u64>,
}

impl OpRule for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        if self.sizes.iter().sum::<u64>() != x.shape.last() {
            return Err(ShapeError { message: format!("split of shape {} into {:?} does not add up", x.shape, self.sizes) });
        }
        let part = |&size: &u64| Ok(TensorMeta { shape: x.shape.with_last(size)?, ..x.clone() });
        self.sizes.iter().map(part).collect()
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let parts = self.infer(inputs).expect("infer has succeeded");
        Recipe::new().forward(parts.into_iter().map(|part| Output::View(0, part)).collect())
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(dtype) = grads.iter().flatten().map(|g| g.dtype).next().filter(|_| needs[0]) else {
            return r.backward(vec![Gradient::None]);
        };
        // Parts that nobody used count as zeros; then all are put together.
        let part = |size: u64| TensorMeta::contiguous(inputs[0].shape.with_last(size).unwrap_or_else(|_| Shape::scalar()), dtype);
        let missing = self.sizes.iter().zip(grads).filter(|(_, g)| g.is_none());
        let zeros: Vec<_> = missing.map(|(&size, _)| r.tensor(&part(size))).collect();
        let whole = inputs[0].with_dtype(dtype);
        let out = r.tensor(&whole);
        zeros.into_iter().rev().for_each(|z| r.free(z));
        r.backward(vec![Gradient::New(out, whole)])
    }
}
