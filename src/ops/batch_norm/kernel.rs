//! `batch_norm`: keeps its input and, for each channel, mean and reciprocal deviation of the batch.

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

    /// Scratch of a reduction to a pair of figures a channel, in the order of its allocation.
    fn scratch(&self, exec: &Exec, channels: u64, accumulator: u64) -> Result<Option<(Storage, Storage)>> {
        let (wide, tall) = self.blocks;
        if tall <= 1 {
            return Ok(None);
        }
        let staging = exec.scratch(4 * channels * tall * accumulator)?;
        let semaphores = exec.scratch(4 * wide)?;
        Ok(Some((semaphores, staging)))
    }
}

impl BatchNorm {
    /// cuDNN takes what has more than two dimensions and is not bfloat16.
    fn uses_cudnn(x: &TensorMeta) -> bool {
        x.shape.rank() > 2 && x.dtype != DType::BF16
    }
}

/// One figure a channel.
fn channel_statistics(x: &TensorMeta, weight: &Tensor) -> TensorMeta {
    TensorMeta::contiguous(weight.shape().clone(), x.dtype.accumulator())
}

impl OpKernel for BatchNorm {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        // Input, weight and running statistics.
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone()), Some(inputs[3].clone()), Some(inputs[4].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (x, weight) = (inputs[0], inputs[1]);
        let out = exec.empty_like(x)?;
        if !self.training {
            return Ok(Forward::plain(out));
        }
        let mean = exec.empty(channel_statistics(x.meta(), weight))?;
        let invstd = exec.empty(mean.shared_meta())?;
        if !Self::uses_cudnn(x.meta()) {
            let channels = weight.meta().numel();
            let _scratch = Split::of(x.meta().numel() / channels, channels).scratch(exec, channels, mean.dtype().bytes())?;
        }
        Ok(Forward::saving(out, [mean, invstd]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let weight = |exec: &Exec, i: usize| exec.empty(at.inputs[i].clone()).map(Some);
        let none = || [None, None, None];
        if Self::uses_cudnn(&at.inputs[0]) {
            let x = exec.empty(at.input())?;
            let (gw, gb) = (weight(exec, 1)?, weight(exec, 2)?);
            return Ok([Some(x), gw, gb].into_iter().chain(none()).collect());
        }
        let statistics = channel_statistics(&at.inputs[0], at.saved(1));
        let channels = statistics.numel();
        let _sum_dy = exec.empty(statistics.clone())?;
        let _sum_dy_xmu = exec.empty(statistics)?;
        let (gw, gb) = (weight(exec, 1)?, weight(exec, 2)?);
        let rows = at.inputs[0].numel() / channels;
        drop(Split::of(rows, channels).scratch(exec, channels, at.inputs[0].dtype.accumulator().bytes())?);
        let x = if at.needs[0] { Some(exec.empty(at.input())?) } else { None };
        Ok([x, gw, gb].into_iter().chain(none()).collect())
    }
}
