//! What `sum` does to memory.

use crate::meta::{DType, TensorMeta};
use crate::ops::recipe::{Raw, Recipe};
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, ShapeError, scalar_of};

/// Sum of all elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sum {
    /// A half input gives an f32 sum in one pass (autocast's fused cast).
    pub to_f32: bool,
}

impl Sum {
    const fn output(self, input: DType) -> DType {
        if self.to_f32 && input.is_half() { DType::F32 } else { input }
    }
}

impl OpRule for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        scalar_of(self.output(inputs[0].dtype))
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], _: &[bool]) -> Forward {
        let dtype = self.output(inputs[0].dtype);
        let mut r = Recipe::new();
        let out = Reduction::all(&inputs[0], dtype).run(&mut r, cx.gpu);
        r.forward(vec![Output::New(out, TensorMeta::scalar(dtype))])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let raw = Raw::view(0, TensorMeta::expanded(inputs[0].shape.clone(), incoming.dtype));
        let gradient = r.fit(cx.gpu, raw, &inputs[0]);
        r.backward(vec![gradient])
    }
}
