//! What `add` does to memory.

use crate::meta::TensorMeta;
use crate::ops::recipe::{Raw, Recipe};
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError, broadcast, promote};

/// `left + right`, broadcast where sizes differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Add {
    /// `left += right`.
    pub inplace: bool,
}

impl OpRule for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let out = broadcast(self.name(), &inputs[0].shape, &inputs[1].shape)?;
        if self.inplace && out != inputs[0].shape {
            return Err(ShapeError {
                message: format!(
                    "an in-place add of shape {} cannot take a sum of shape {out} (the other side is {})",
                    inputs[0].shape, inputs[1].shape
                ),
            });
        }
        if self.inplace {
            return Ok(vec![inputs[0].clone()]);
        }
        Ok(vec![TensorMeta::over(out, promote(inputs[0].dtype, inputs[1].dtype), &[&inputs[0], &inputs[1]])])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let mut r = Recipe::new();
        if self.inplace {
            return r.forward(vec![Output::InPlace(0, inputs[0].clone())]);
        }
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let slot = r.tensor(&out);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(incoming) = &grads[0] else { return r.backward(vec![Gradient::None; 2]) };
        let gradients =
            (0..2).map(|i| if needs[i] { r.fit(cx.gpu, Raw::same(0, incoming.clone()), &inputs[i]) } else { Gradient::None }).collect();
        r.backward(gradients)
    }
}
