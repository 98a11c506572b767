//! `batch_norm`: keeps its input and, for each channel, mean and reciprocal deviation of the batch.

use std::rc::Rc;

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
}

/// PyTorch's implementations, which differ in memory.
enum Path {
    Cudnn,
    /// A matrix: rows are reduced as channels-last images are.
    Matrix,
    /// Images, channels in front.
    Planes,
}

impl BatchNorm {
    fn path(&self, x: &TensorMeta, weight: &TensorMeta) -> Path {
        // cuDNN's limits (`_select_batch_norm_backend`): a half input needs f32 parameters, and the batch must not be too long.
        let most_samples = if self.training { 880_801 } else { 65_535 };
        let halves = x.dtype == DType::BF16 || (x.dtype == DType::F16 && weight.dtype != DType::F32);
        match x.shape.rank() {
            0..=2 => Path::Matrix,
            _ if halves || x.shape.dims()[0] > most_samples => Path::Planes,
            _ => Path::Cudnn,
        }
    }
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
        let out = exec.empty_like(inputs[0])?;
        let path = self.path(x, weight);
        if !self.training && matches!(path, Path::Cudnn) {
            exec.on_host(|host| self.evaluate_on_host(host, inputs, &out));
            return Ok(Forward::plain(out));
        }
        let mean = exec.empty(channel_statistics(x, weight))?;
        let invstd = exec.empty(mean.shared_meta())?;
        if self.training && matches!(path, Path::Matrix) {
            let _scratch = Split::of(x.shape.rows(), weight.numel()).scratch(exec, 4, weight.numel(), mean.dtype().bytes())?;
        }
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
        let new = |i: usize| if at.needs[i] { exec.empty(at.inputs[i].clone()).map(Some) } else { Ok(None) };
        let mut gradients = vec![None; at.inputs.len()];
        let (mut _contiguous, mut _unwanted) = (None, None);
        match self.path(x, weight) {
            Path::Matrix => {
                // The kernels for channels last need both tensors so; others spare the sums that only the input's gradient needs.
                let channels_last = at.grad().meta().is_contiguous();
                let statistics = Rc::new(channel_statistics(x, weight));
                let sum = || if channels_last || at.needs[0] { exec.empty(Rc::clone(&statistics)).map(Some) } else { Ok(None) };
                let (_sum_dy, _sum_dy_xmu) = (sum()?, sum()?);
                (gradients[1], gradients[2]) = (new(1)?, new(2)?);
                if channels_last {
                    let split = Split::of(x.shape.rows(), weight.numel());
                    drop(split.scratch(exec, 2, weight.numel(), statistics.dtype.bytes())?);
                }
                gradients[0] = new(0)?;
            }
            Path::Planes => {
                for (i, gradient) in gradients.iter_mut().enumerate().take(3) {
                    *gradient = new(i)?;
                }
            }
            Path::Cudnn => {
                _contiguous = Some(exec.contiguous(at.grad())?);
                // The gradient of the input is computed whether it is wanted or not.
                let of_input = exec.empty(at.input())?;
                if at.needs[0] {
                    gradients[0] = Some(of_input);
                } else {
                    _unwanted = Some(of_input);
                }
                (gradients[1], gradients[2]) = (new(1)?, new(2)?);
            }
        }
        exec.on_host(|host| self.backward_on_host(host, at, &gradients));
        Ok(gradients)
    }
}
