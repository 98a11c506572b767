//! What `max_pool2d` does to memory: where each largest element lay is made always, and kept as 64-bit integers.

use crate::meta::TensorMeta;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError};
use crate::ops::window::Window;

/// The largest element of each window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaxPool2d {
    /// The window.
    pub window: Window,
}

impl OpRule for MaxPool2d {
    fn name(&self) -> &'static str {
        "max_pool2d"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![self.window.pass(self.name(), &inputs[0])?])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let mut r = Recipe::new();
        r.keep(Saved::Input(0), needs[0]);
        let slot = r.tensor(&out);
        let indices = r.alloc(out.numel() * 8);
        r.keep_or_free(indices, needs[0]);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        spread_over_windows(&inputs[0], grads[0].as_ref(), needs[0])
    }
}

/// The gradient of a pooling: as large as the input; an incoming gradient of stride 0 is written out after it.
#[must_use]
pub fn spread_over_windows(x: &TensorMeta, incoming: Option<&TensorMeta>, needed: bool) -> Backward {
    let mut r = Recipe::new();
    let (Some(incoming), true) = (incoming, needed) else { return r.backward(vec![Gradient::None]) };
    let out = r.tensor(&x.like());
    if !incoming.is_contiguous() {
        r.temporary(incoming.bytes());
    }
    r.backward(vec![Gradient::New(out, x.like())])
}
