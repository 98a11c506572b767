//! What `group_norm` does to memory (`native_group_norm`).

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError, same_as_first};

/// Normalisation of each sample over groups of channels. Inputs: x (batch, channels, …), contiguous; weight, bias (channels).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupNorm {
    /// Groups that the channels divide into.
    pub groups: u64,
    /// Added to the variance.
    pub eps: f64,
}

/// Bytes of a figure a group in the type of x, and in f32 or wider of figures a group and a channel, over the batch.
struct Figures {
    kept: u64,
    groups: u64,
    channels: u64,
    /// Whether channels have positions.
    has_positions: bool,
}

impl GroupNorm {
    fn figures(&self, x: &TensorMeta) -> Figures {
        let dims = x.shape.dims();
        let accumulator = x.dtype.accumulator().bytes();
        Figures {
            kept: dims[0] * self.groups * x.dtype.bytes(),
            groups: dims[0] * self.groups * accumulator,
            channels: dims[0] * dims[1] * accumulator,
            has_positions: dims[2..].iter().product::<u64>() > 1,
        }
    }
}

impl OpRule for GroupNorm {
    fn name(&self) -> &'static str {
        "group_norm"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x: &Shape = &inputs[0].shape;
        if x.rank() < 2 || !x.dims()[1].is_multiple_of(self.groups) {
            return Err(ShapeError { message: format!("group_norm cannot divide the channels of {x} into {} groups", self.groups) });
        }
        if let Some(p) = inputs[1..].iter().find(|p| p.shape.dims() != &x.dims()[1..2]) {
            return Err(ShapeError { message: format!("group_norm over {x} does not go with a parameter of shape {}", p.shape) });
        }
        same_as_first(inputs)
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let x = &inputs[0];
        let needed = needs.contains(&true);
        let f = self.figures(x);
        let mut r = Recipe::new();
        r.keep(Saved::Input(0), needed);
        r.keep(Saved::Input(1), needed);
        let out = r.tensor(&x.like());
        let (mean, rstd) = (r.alloc(f.kept), r.alloc(f.kept));
        if f.has_positions {
            // Factor and summand of each channel of each sample.
            let (factor, summand) = (r.alloc(f.channels), r.alloc(f.channels));
            r.free(summand);
            r.free(factor);
        }
        r.keep_or_free(mean, needed);
        r.keep_or_free(rstd, needed);
        r.forward(vec![Output::New(out, x.like())])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(incoming) = &grads[0] else { return r.backward(vec![Gradient::None; 3]) };
        let f = self.figures(&inputs[0]);
        let copy = (!incoming.is_contiguous()).then(|| r.tensor(&incoming.like()));
        let slots: Vec<Option<usize>> = inputs.iter().zip(needs).map(|(input, &needed)| needed.then(|| r.tensor(&input.like()))).collect();
        let sums = [r.alloc(f.channels), r.alloc(f.channels)];
        if needs[0] {
            let of_groups = [r.alloc(f.groups), r.alloc(f.groups)];
            let factors = r.alloc(if f.has_positions { f.channels } else { 0 });
            of_groups.into_iter().rev().chain([factors]).for_each(|slot| r.free(slot));
        }
        sums.into_iter().rev().for_each(|slot| r.free(slot));
        if let Some(copy) = copy {
            r.free(copy);
        }
        r.backward(slots.into_iter().zip(inputs).map(|(slot, i)| slot.map_or(Gradient::None, |s| Gradient::New(s, i.like()))).collect())
    }
}
