//! What `batch_norm` does to memory. PyTorch has two implementations, its own and cuDNN's, and its own has a kernel for inputs
//! whose channels lie innermost, which meets in scratch, and takes `var_mean` of what lies with gaps.

use crate::meta::{DType, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError, Slot, dense_as_first};

/// Batch normalisation. Inputs: x, weight, bias, running_mean, running_var, num_batches_tracked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNorm {
    /// Use the batch's statistics and update the running ones.
    pub training: bool,
    /// Weight of the batch in the running statistics.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
}

impl OpRule for BatchNorm {
    fn name(&self) -> &'static str {
        "batch_norm"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0].shape;
        if !matches!(x.rank(), 2..=4) {
            return Err(ShapeError { message: format!("batch_norm needs two to four dimensions (batch first), got {x}") });
        }
        let channels = &x.dims()[1..2];
        if let Some(p) = inputs[1..5].iter().find(|p| p.shape.dims() != channels) {
            return Err(ShapeError {
                message: format!("batch_norm over the {} channels of {x} does not go with a tensor of shape {}", channels[0], p.shape),
            });
        }
        dense_as_first(inputs)
    }

    fn refuses(&self, inputs: &[TensorMeta]) -> Option<String> {
        let (x, weight) = (&inputs[0], inputs[1].dtype);
        if weight == x.dtype || weight == DType::F32 {
            return None;
        }
        // An input of another type is taken for a half one with f32 parameters.
        let name = |d: DType| match d {
            DType::F64 => "Double",
            DType::F16 => "Half",
            DType::BF16 => "BFloat16",
            DType::F32 => "Float",
            _ => d.name(),
        };
        let found = name(weight);
        Some(if elements_behind(x) == 1 {
            format!("expected scalar type Float but found {found}")
        } else {
            format!("Expected weight to have type Float but got {found}")
        })
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let x = &inputs[0];
        let needed = needs.contains(&true);
        let mut r = Recipe::new();
        for i in [0, 1, 3, 4] {
            r.keep(Saved::Input(i), needed);
        }
        let out = r.tensor(&x.dense());
        let cudnn = self.is_cudnn(inputs);
        let statistics = if cudnn && !self.training { 0 } else { statistics_bytes(x) };
        let (mean, inverse) = (r.alloc(statistics), r.alloc(statistics));
        if self.training && !cudnn && !x.is_contiguous() {
            let channels: Vec<bool> = (0..x.shape.rank()).map(|d| d != 1).collect();
            // It reads f16 as f32, but bfloat16 only from a copy.
            let wide = (x.dtype == DType::BF16).then(|| x.dense().with_dtype(DType::F32));
            let copy = wide.as_ref().map(|wide| r.tensor(wide));
            Reduction::var_mean(wide.as_ref().unwrap_or(x), &channels).scratch_into(&mut r, cx.gpu);
            copy.into_iter().for_each(|copy| r.free(copy));
        } else if self.training && !cudnn && elements_behind(x) == 1 && fits_32_bits(x) {
            // Mean and squared deviations, one partial result of each for two passes.
            Staging::of(x, 4).into_iter().for_each(|s| s.run(&mut r));
        }
        r.keep_or_free(mean, needed);
        r.keep_or_free(inverse, needed);
        r.forward(vec![Output::New(out, x.dense())])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(incoming) = &grads[0] else { return r.backward(vec![Gradient::None; inputs.len()]) };
        let [x, weight, bias] = if self.is_cudnn(inputs) && self.training {
            self.backward_of_cudnn(&mut r, inputs, incoming, needs)
        } else {
            self.backward_of_native(&mut r, inputs, incoming, needs)
        };
        let gradient = |slot: Option<Slot>, i: usize| slot.map_or(Gradient::None, |s| Gradient::New(s, inputs[i].like()));
        r.backward(vec![gradient(x, 0), gradient(weight, 1), gradient(bias, 2), Gradient::None, Gradient::None, Gradient::None])
    }
}

/// `CUDNN_BN_MIN_EPSILON`.
const CUDNN_MIN_EPSILON: f64 = 1e-5;

impl BatchNorm {
    /// PyTorch's choice of cuDNN (`_select_batch_norm_backend` of `Normalization.cpp`, limits and all): not for two dimensions, not for
    /// bfloat16, and for halves only with f32 parameters.
    #[must_use]
    pub fn is_cudnn(&self, inputs: &[TensorMeta]) -> bool {
        use crate::meta::DType::{BF16, F16, F32};
        let (x, weight) = (&inputs[0], &inputs[1]);
        let types = x.dtype != BF16 && weight.dtype != BF16 && (x.dtype != F16 || weight.dtype == F32);
        let most_samples = if self.training { 880_801 } else { 65_535 };
        types
            && x.shape.rank() >= 3
            && x.shape.dims()[0] <= most_samples
            && self.eps >= CUDNN_MIN_EPSILON
            && x.numel() < u64::from(i32::MAX.unsigned_abs())
    }

    fn backward_of_cudnn(&self, r: &mut Recipe, inputs: &[TensorMeta], incoming: &TensorMeta, needs: &[bool]) -> [Option<Slot>; 3] {
        let copy = (!incoming.is_contiguous()).then(|| r.tensor(&incoming.like()));
        let slots = [0, 1, 2].map(|i| r.tensor(&inputs[i].like()));
        if let Some(copy) = copy {
            r.free(copy);
        }
        // It always computes all three.
        let kept = [0, 1, 2].map(|i| if needs[i] { Some(slots[i]) } else { None });
        (0..3).filter(|&i| !needs[i]).for_each(|i| r.free(slots[i]));
        kept
    }

    fn backward_of_native(&self, r: &mut Recipe, inputs: &[TensorMeta], incoming: &TensorMeta, needs: &[bool]) -> [Option<Slot>; 3] {
        let x = &inputs[0];
        let like = |r: &mut Recipe, i: usize| needs[i].then(|| r.tensor(&inputs[i].like()));
        let innermost = channels_innermost(x);
        if needs[0] && !innermost && fits_32_bits(x) {
            // One kernel does everything.
            return [0, 1, 2].map(|i| like(r, i));
        }
        let statistics = statistics_bytes(x);
        // cuDNN's evaluation kept no statistics: the inverse of the running deviation is computed anew.
        let inverse = (!self.training && self.is_cudnn(inputs)).then(|| r.alloc(statistics));
        let scratched = innermost && incoming.is_contiguous();
        let sums = (needs[0] || scratched).then(|| (r.alloc(statistics), r.alloc(statistics)));
        let (weight, bias) = (like(r, 1), like(r, 2));
        if scratched {
            Staging::of(x, 2).into_iter().for_each(|s| s.run(r));
        }
        let gradient = like(r, 0);
        if let Some((sum, sum_of_deviations)) = sums {
            r.free(sum_of_deviations);
            r.free(sum);
        }
        if let Some(inverse) = inverse {
            r.free(inverse);
        }
        [gradient, weight, bias]
    }
}

/// Bytes of one statistic a channel: the accumulator's type.
fn statistics_bytes(x: &TensorMeta) -> u64 {
    x.shape.dims()[1] * x.dtype.accumulator().bytes()
}

/// Elements of a channel: the batch and what lies behind the channels.
fn elements_per_channel(x: &TensorMeta) -> u64 {
    x.numel() / x.shape.dims()[1]
}

fn fits_32_bits(x: &TensorMeta) -> bool {
    x.numel() <= u64::from(i32::MAX.unsigned_abs())
}

/// Elements that lie between one channel and the next.
fn elements_behind(x: &TensorMeta) -> u64 {
    x.shape.dims()[2..].iter().product()
}

/// Whether backward takes neighbours in memory for neighbouring channels. Unlike forward, it lets a four-dimensional tensor of one
/// channel pass, which is in the channels-last layout as much as in the other.
fn channels_innermost(x: &TensorMeta) -> bool {
    fits_32_bits(x) && x.is_contiguous() && (elements_behind(x) == 1 || (x.shape.rank() == 4 && x.shape.dims()[1] == 1))
}

/// Scratch where thread blocks of the channels-innermost kernels meet (`flexible_launch_configs` of `Normalization.cuh`).
struct Staging {
    buffer: u64,
    semaphores: u64,
}

impl Staging {
    /// `parts` partial results a channel and thread block; nothing where one row of blocks does it all.
    fn of(x: &TensorMeta, parts: u64) -> Option<Self> {
        const THREADS: u64 = 512;
        let pow2 = |n: u64| 1 << n.max(1).ilog2();
        let (rows, channels) = (elements_per_channel(x), x.shape.dims()[1]);
        let mut across = pow2(channels).min(32);
        let down = pow2(rows.div_ceil(16)).min(THREADS / across);
        if across * down != THREADS {
            across = pow2(channels).min(THREADS / down);
        }
        let blocks = rows.div_ceil(16 * down).min(128);
        (blocks >= 8)
            .then(|| Self { buffer: parts * channels * blocks * x.dtype.accumulator().bytes(), semaphores: 4 * channels.div_ceil(across) })
    }

    fn run(self, r: &mut Recipe) {
        let (buffer, semaphores) = (r.alloc(self.buffer), r.alloc(self.semaphores));
        r.free(semaphores);
        r.free(buffer);
    }
}
