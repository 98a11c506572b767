//! What `log_softmax` does to memory.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, RuleContext, Saved, ShapeError, same_as_first};

/// Logarithm of softmax over the last dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSoftmax;

impl OpRule for LogSoftmax {
    fn name(&self) -> &'static str {
        "log_softmax"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        same_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        elementwise::forward(&inputs[0].like(), &[Saved::Output(0)], needs[0])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None]) };
        let out = r.tensor(&inputs[0].like());
        if !incoming.is_contiguous() {
            r.temporary(incoming.bytes());
        }
        r.backward(vec![Gradient::New(out, inputs[0].like())])
    }
}
