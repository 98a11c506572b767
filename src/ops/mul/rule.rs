//! What `mul` does to memory.

use crate::meta::TensorMeta;
use crate::ops::recipe::{Raw, Recipe};
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError, broadcast, promote};

/// `left · right`, the right one broadcast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mul;

impl OpRule for Mul {
    fn name(&self) -> &'static str {
        "mul"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let out = broadcast(self.name(), &inputs[0].shape, &inputs[1].shape)?;
        Ok(vec![TensorMeta::over(out, promote(inputs[0].dtype, inputs[1].dtype), &[&inputs[0], &inputs[1]])])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let mut r = Recipe::new();
        r.keep(Saved::Input(1), needs[0]);
        r.keep(Saved::Input(0), needs[1]);
        let slot = r.tensor(&out);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(incoming) = &grads[0] else { return r.backward(vec![Gradient::None; 2]) };
        // Formulas run by name: `other` before `self`. The engine fits both afterwards.
        let mut product = |with: &TensorMeta| {
            let out = TensorMeta::over(incoming.shape.clone(), incoming.dtype, &[incoming, with]);
            Raw::new(r.tensor(&out), out)
        };
        let right = needs[1].then(|| product(&inputs[0]));
        let left = needs[0].then(|| product(&inputs[1]));
        r.returned();
        let gradients =
            [left, right].into_iter().zip(inputs).map(|(raw, input)| raw.map_or(Gradient::None, |raw| r.fit(cx.gpu, raw, input))).collect();
        r.backward(gradients)
    }
}
