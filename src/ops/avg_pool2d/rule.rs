//! What `avg_pool2d` does to memory: it keeps its input, although backward needs no more than its shape.

use crate::meta::TensorMeta;
use crate::ops::elementwise;
use crate::ops::max_pool2d::rule::spread_over_windows;
use crate::ops::rule::{Backward, Forward, OpRule, RuleContext, Saved, ShapeError};
use crate::ops::window::Window;

/// The mean of each window, what lies around the input counted as zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AvgPool2d {
    /// The window.
    pub window: Window,
}

impl OpRule for AvgPool2d {
    fn name(&self) -> &'static str {
        "avg_pool2d"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        Ok(vec![self.window.pass(self.name(), &inputs[0])?])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        elementwise::forward(&out, &[Saved::Input(0)], needs[0])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        spread_over_windows(&inputs[0], grads[0].as_ref(), needs[0])
    }
}
