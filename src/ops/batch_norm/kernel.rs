//! `batch_norm`: keeps its input and, for each channel, mean and reciprocal deviation of the batch.

use std::rc::Rc;

use super::kernel_cuda::Parts;
use super::rule::BatchNorm;
use crate::exec::{Exec, Result};
use crate::meta::{DType, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::{Storage, Tensor};

/// The blocks in which PyTorch's kernels for channels-last input reduce it, rows split among `blocks.1` of them
/// (`flexible_launch_configs` of `Normalization.cuh`).
struct Split {
    blocks: (u64, u64),
}

impl Split {
    fn of(rows: u64, channels: u64) -> Self {
        const MOST_THREADS: u64 = 512;
        const WIDTH: u64 = 32;
        const LOOP: u64 = 16;
        const MOST_ROWS_OF_BLOCKS: u64 = 128;
        let power = |n: u64| 1 << n.max(1).ilog2();
        let width = power(channels).min(WIDTH);
        let height = power(rows.div_ceil(LOOP)).min(MOST_THREADS / width);
        let width = if width * height == MOST_THREADS { width } else { power(channels).min(MOST_THREADS / height) };
        let tall = rows.div_ceil(height * LOOP).min(MOST_ROWS_OF_BLOCKS);
        Self { blocks: (channels.div_ceil(width), if tall < 8 { 1 } else { tall }) }
    }

    /// Scratch of a reduction to this many figures a channel: what is taken last comes first, to be given back first.
    fn scratch(&self, exec: &Exec, figures: u64, channels: u64, accumulator: u64) -> Result<Option<(Storage, Storage)>> {
        let (wide, tall) = self.blocks;
        if tall <= 1 {
            return Ok(None);
        }
        let staging = exec.scratch(figures * channels * tall * accumulator)?;
        let semaphores = exec.scratch(4 * wide)?;
        Ok(Some((semaphores, staging)))
    }

    /// How many blocks share the rows, and where they leave their parts; one, and nowhere, without scratch.
    fn parts(&self, scratch: Option<&(Storage, Storage)>) -> Parts {
        scratch.map_or(Parts { count: 1, address: 0 }, |(_, staging)| Parts { count: self.blocks.1 as u32, address: staging.address() })
    }
}

/// PyTorch's implementations, which differ in memory.
#[derive(Clone, Copy, PartialEq)]
enum Path {
    Cudnn,
    /// A matrix: rows are reduced as channels-last images are.
    Matrix,
    /// Images, channels in front, and whatever lies with gaps.
    Planes,
}

impl BatchNorm {
    fn path(&self, x: &TensorMeta, weight: &TensorMeta) -> Path {
        // cuDNN's limits (`_select_batch_norm_backend`): a half input needs f32 parameters, and the batch must not be too long.
        let most_samples = if self.training { 880_801 } else { 65_535 };
        let halves = [x.dtype, weight.dtype].contains(&DType::BF16) || (x.dtype == DType::F16 && weight.dtype != DType::F32);
        let elements_fit = x.numel() < MOST_ELEMENTS;
        if x.shape.rank() > 2 && !halves && x.shape.dims()[0] <= most_samples && self.eps >= 1e-5 && elements_fit {
            Path::Cudnn
        } else if inner(x) == 1 && x.is_contiguous() && x.numel() <= MOST_ELEMENTS {
            Path::Matrix
        } else {
            Path::Planes
        }
    }
}

/// What a 32-bit index reaches; other kernels work beyond.
const MOST_ELEMENTS: u64 = i32::MAX as u64;

/// Elements of one channel of one sample.
fn inner(x: &TensorMeta) -> u64 {
    x.shape.dims()[2..].iter().product()
}

/// One figure a channel.
fn channel_statistics(x: &TensorMeta, weight: &TensorMeta) -> TensorMeta {
    TensorMeta::contiguous(weight.shape.clone(), x.dtype.accumulator())
}

impl OpKernel for BatchNorm {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        // Input, weight and running statistics.
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone()), Some(inputs[3].clone()), Some(inputs[4].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (x, weight) = (inputs[0].meta(), inputs[1].meta());
        let out = exec.empty_dense(inputs[0])?;
        let path = self.path(x, weight);
        if !self.training && matches!(path, Path::Cudnn) {
            exec.on_host(|host| self.evaluate_on_host(host, inputs, &out));
            exec.on_cuda(|gpu| self.evaluate_on_cuda(gpu, inputs, &out));
            return Ok(Forward::plain(out));
        }
        let mean = exec.empty(channel_statistics(x, weight))?;
        let invstd = exec.empty(mean.shared_meta())?;
        if self.training && path != Path::Cudnn && !x.is_contiguous() {
            // PyTorch takes `var_mean`, which has no kernel for bfloat16 and reduces a copy of it.
            let reduced: Vec<bool> = (0..x.shape.rank()).map(|d| d != 1).collect();
            let wide = if x.dtype == DType::BF16 { Some(exec.empty(x.dense().with_dtype(DType::F32))?) } else { None };
            exec.variance_scratch(wide.as_ref().map_or(x, Tensor::meta), &reduced)?;
        }
        let split = Split::of(x.numel() / weight.numel(), weight.numel());
        let scratch = match path {
            Path::Matrix if self.training => split.scratch(exec, 4, weight.numel(), mean.dtype().bytes())?,
            _ => None,
        };
        exec.on_cuda(|gpu| {
            if self.training {
                self.train_on_cuda(gpu, inputs, &out, [&mean, &invstd], split.parts(scratch.as_ref()));
            } else {
                self.evaluate_on_cuda(gpu, inputs, &out);
            }
        });
        drop(scratch);
        exec.on_host(|host| {
            if self.training {
                self.train_on_host(host, inputs, &out, &mean, &invstd);
            } else {
                self.evaluate_on_host(host, inputs, &out);
            }
        });
        Ok(Forward::saving(out, [mean, invstd]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (x, weight) = (&at.inputs[0], &at.inputs[1]);
        let fresh = |i: usize| exec.empty(if i == 0 { at.input() } else { at.inputs[i].clone() });
        let new = |i: usize| if at.needs[i] { fresh(i).map(Some) } else { Ok(None) };
        let mut gradients = vec![None; at.inputs.len()];
        let path = self.path(x, weight);
        // Between one gradient and the next of a channel lie those of other channels, in backward also where there are no others.
        let rows = path == Path::Matrix || (x.shape.rank() == 4 && weight.numel() == 1 && x.is_contiguous() && x.numel() <= MOST_ELEMENTS);
        if path == Path::Cudnn && self.training {
            let _contiguous = exec.contiguous(at.grad())?;
            // It computes all of them, wanted or not.
            for (i, gradient) in gradients.iter_mut().enumerate().take(3) {
                *gradient = Some(fresh(i)?);
            }
            (0..3).filter(|&i| !at.needs[i]).for_each(|i| gradients[i] = None);
            exec.on_cuda(|gpu| self.backward_of_planes_on_cuda(gpu, at, &gradients));
        } else if at.needs[0] && !rows && x.numel() <= MOST_ELEMENTS {
            for (i, gradient) in gradients.iter_mut().enumerate().take(3) {
                *gradient = new(i)?;
            }
            exec.on_cuda(|gpu| self.backward_of_planes_on_cuda(gpu, at, &gradients));
        } else {
            let statistics = Rc::new(channel_statistics(x, weight));
            // cuDNN kept no statistics in evaluation.
            let _invstd = if path == Path::Cudnn { Some(exec.empty(Rc::clone(&statistics))?) } else { None };
            // Rows are reduced as such only where the gradients lie so too; other kernels spare the sums that only the input's gradient
            // needs.
            let rows = rows && at.grad().meta().is_contiguous();
            let sum = || if rows || at.needs[0] { exec.empty(Rc::clone(&statistics)).map(Some) } else { Ok(None) };
            let sums = [sum()?, sum()?];
            (gradients[1], gradients[2]) = (new(1)?, new(2)?);
            let split = Split::of(x.numel() / weight.numel(), weight.numel());
            let scratch = if rows { split.scratch(exec, 2, weight.numel(), statistics.dtype.bytes())? } else { None };
            if let ([Some(dy), Some(dy_xmu)], 1, true) = (&sums, inner(x), self.training) {
                exec.on_cuda(|gpu| self.sum_on_cuda(gpu, at, &gradients, [dy, dy_xmu], split.parts(scratch.as_ref())));
                drop(scratch);
                gradients[0] = new(0)?;
                exec.on_cuda(|gpu| self.backward_on_cuda(gpu, at, &gradients, [dy, dy_xmu]));
            } else {
                drop(scratch);
                gradients[0] = new(0)?;
                exec.on_cuda(|gpu| self.backward_of_planes_on_cuda(gpu, at, &gradients));
            }
        }
        exec.on_host(|host| self.backward_on_host(host, at, &gradients));
        Ok(gradients)
    }
}
