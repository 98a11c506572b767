//! What `adaptive_avg_pool2d` does to memory. To one place it is a mean over the planes, which keeps nothing and may meet in scratch.

use crate::meta::{Shape, TensorMeta};
use crate::ops::elementwise;
use crate::ops::max_pool2d::rule::spread_over_windows;
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, OpRule, Output, RuleContext, Saved, ShapeError};

/// Means over windows chosen so that the output has the given size: height, width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveAvgPool2d {
    /// The size.
    pub output: [u64; 2],
}

impl AdaptiveAvgPool2d {
    fn is_mean(&self) -> bool {
        self.output == [1, 1]
    }
}

impl OpRule for AdaptiveAvgPool2d {
    fn name(&self) -> &'static str {
        "adaptive_avg_pool2d"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        let &[batch, channels, _, _] = x.shape.dims() else {
            return Err(ShapeError { message: format!("adaptive_avg_pool2d needs four dimensions, got {}", x.shape) });
        };
        Ok(vec![TensorMeta::contiguous(Shape::new([batch, channels, self.output[0], self.output[1]])?, x.dtype)])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        if !self.is_mean() {
            return elementwise::forward(&out, &[Saved::Input(0)], needs[0]);
        }
        let mut r = Recipe::new();
        let slot = Reduction::new(&inputs[0], &[false, false, true, true], out.dtype).run(&mut r, cx.gpu);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        if self.is_mean() {
            return elementwise::backward(inputs, needs); // the spread gradient is divided, so it is written out
        }
        spread_over_windows(&inputs[0], grads[0].as_ref(), needs[0])
    }
}
