//! `group_norm` keeps its input and, for each group, mean and reciprocal deviation.

use super::rule::GroupNorm;
use crate::device::Operand;
use crate::device::cuda::{Arg, Grid, Kernel, Source};
use crate::device::host::{Host, Real, sum, with_real};
use crate::exec::{Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

/// A group of channels of one sample lies in one stretch, and so does each channel in it.
struct Sizes {
    groups: usize,
    channels: usize,
    positions: usize,
}

impl GroupNorm {
    fn sizes(&self, x: &TensorMeta) -> Sizes {
        let dims = x.shape.dims();
        let positions = dims[2..].iter().product::<u64>();
        Sizes { groups: self.groups as usize, channels: dims[1] as usize, positions: positions as usize }
    }

    /// A figure a group.
    fn statistics(&self, x: &TensorMeta) -> TensorMeta {
        let shape = Shape::new([x.shape.dims()[0], self.groups]).expect("no more elements than the input has");
        TensorMeta::contiguous(shape, x.dtype)
    }

    /// Scratch in the accumulator's type, a figure for each of `each` per sample.
    fn scratch(exec: &Exec, x: &TensorMeta, each: u64) -> Result<crate::tensor::Storage> {
        exec.scratch(x.shape.dims()[0] * each * x.dtype.accumulator().bytes())
    }
}

fn forward<R: Real>(host: &Host, s: &Sizes, eps: f64, [x, weight, bias]: [Operand<'_>; 3], outputs: [Operand<'_>; 3]) {
    let (x, weight, bias): (Vec<R>, Vec<R>, Vec<R>) = (host.values(x), host.values(weight), host.values(bias));
    let per_group = s.channels / s.groups;
    let width = per_group * s.positions;
    let (mut out, mut means, mut rstds) = (Vec::with_capacity(x.len()), Vec::new(), Vec::new());
    for (number, group) in x.chunks_exact(width).enumerate() {
        let n = R::of_count(width);
        let mean = sum(width, |i| group[i]) / n;
        let rstd = R::ONE / (sum(width, |i| (group[i] - mean) * (group[i] - mean)) / n + R::from_f64(eps)).sqrt();
        let first = number % s.groups * per_group;
        out.extend(group.iter().enumerate().map(|(i, &x)| {
            let channel = first + i / s.positions;
            (x - mean) * rstd * weight[channel] + bias[channel]
        }));
        means.push(mean);
        rstds.push(rstd);
    }
    for (to, values) in outputs.into_iter().zip([out, means, rstds]) {
        host.store(to, &values);
    }
}

fn backward<R: Real>(host: &Host, s: &Sizes, reads: [Operand<'_>; 5], to: [Option<Operand<'_>>; 3]) {
    let [grad, x, weight, mean, rstd] = reads.map(|o| host.values::<R>(o));
    let per_group = s.channels / s.groups;
    let width = per_group * s.positions;
    let mut of_x = Vec::with_capacity(x.len());
    let (mut of_weight, mut of_bias) = (vec![R::ZERO; s.channels], vec![R::ZERO; s.channels]);
    for (number, (grad, x)) in grad.chunks_exact(width).zip(x.chunks_exact(width)).enumerate() {
        let (mean, rstd, first) = (mean[number], rstd[number], number % s.groups * per_group);
        let normal = |i: usize| (x[i] - mean) * rstd;
        let scaled = |i: usize| grad[i] * weight[first + i / s.positions];
        let n = R::of_count(width);
        let share = sum(width, scaled) / n;
        let slope = sum(width, |i| scaled(i) * normal(i)) / n;
        of_x.extend((0..width).map(|i| rstd * (scaled(i) - share - normal(i) * slope)));
        for channel in 0..per_group {
            let start = channel * s.positions;
            of_weight[first + channel] += sum(s.positions, |i| grad[start + i] * normal(start + i));
            of_bias[first + channel] += sum(s.positions, |i| grad[start + i]);
        }
    }
    for (to, values) in to.into_iter().zip([of_x, of_weight, of_bias]) {
        if let Some(to) = to {
            host.store(to, &values);
        }
    }
}

static SOURCE: Source = Source { name: "group_norm", text: include_str!("kernel.cu") };

impl OpKernel for GroupNorm {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let out = exec.empty_like(x)?;
        let mean = exec.empty(self.statistics(x.meta()))?;
        let rstd = exec.empty(mean.shared_meta())?;
        let s = self.sizes(x.meta());
        if s.positions > 1 {
            let _factors = Self::scratch(exec, x.meta(), s.channels as u64)?;
            let _summands = Self::scratch(exec, x.meta(), s.channels as u64)?;
        }
        exec.on_host(|host| {
            let reads = [x.operand(), inputs[1].operand(), inputs[2].operand()];
            let writes = [out.operand(), mean.operand(), rstd.operand()];
            with_real!([x], R => forward::<R>(host, &s, self.eps, reads, writes));
        });
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "group_norm_forward", types: &[x.dtype()] };
            let [y, mean, rstd, x, weight, bias] = [&out, &mean, &rstd, x, inputs[1], inputs[2]].map(|t| Arg::from(t.operand()));
            let (rows, columns) = s.rows(out.meta());
            let sizes = [Arg::from(s.groups as u64), (s.channels as u64).into(), (s.positions as u64).into(), self.eps.into()];
            gpu.rows(kernel, rows, columns, &[&sizes[..], &[y, mean, rstd, x, weight, bias]].concat());
        });
        Ok(Forward::saving(out, [mean, rstd]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (x, weight, mean, rstd) = (at.saved(0), at.saved(1), at.saved(2), at.saved(3));
        let grad = exec.contiguous(at.grad())?;
        let mut gradients = Vec::with_capacity(3);
        for (meta, &needed) in at.inputs.iter().zip(at.needs) {
            gradients.push(if needed { Some(exec.empty(meta.like())?) } else { None });
        }
        let s = self.sizes(x.meta());
        let of_grad = Self::scratch(exec, x.meta(), s.channels as u64)?;
        let of_product = Self::scratch(exec, x.meta(), s.channels as u64)?;
        if at.needs[0] {
            let first = Self::scratch(exec, x.meta(), self.groups)?;
            let second = Self::scratch(exec, x.meta(), self.groups)?;
            let _factors = if s.positions > 1 { Some(Self::scratch(exec, x.meta(), s.channels as u64)?) } else { None };
            drop(second);
            drop(first);
        }
        drop(of_product);
        drop(of_grad);
        exec.on_host(|host| {
            let reads = [&grad, x, weight, mean, rstd].map(|t| t.operand());
            let to = [0, 1, 2].map(|i| gradients[i].as_ref().map(Tensor::operand));
            with_real!([x], R => backward::<R>(host, &s, reads, to));
        });
        exec.on_cuda(|gpu| {
            let types = [x.dtype()];
            let kernel = |entry| Kernel { source: &SOURCE, entry, types: &types };
            let [grad, values, weight, mean, rstd] = [&grad, x, weight, mean, rstd].map(|t| Arg::from(t.operand()));
            let to = |i: usize| gradients[i].as_ref().map_or(Arg::from(0u64), |t: &Tensor| t.operand().into());
            let sizes = [Arg::from(s.groups as u64), (s.channels as u64).into(), (s.positions as u64).into()];
            if gradients[0].is_some() {
                let (rows, columns) = s.rows(x.meta());
                let args = [&sizes[..], &[to(0), grad, values, weight, mean, rstd]].concat();
                gpu.rows(kernel("group_norm_backward"), rows, columns, &args);
            }
            if x.meta().numel() > 0 {
                let batch = Arg::from(x.shape().dims()[0]);
                let args = [&[batch][..], &sizes[..], &[to(1), to(2), grad, values, mean, rstd]].concat();
                gpu.launch(kernel("group_norm_parameters"), Grid::line(s.channels as u32, 256), &args);
            }
        });
        drop(grad);
        Ok(gradients)
    }
}

impl Sizes {
    /// Groups of all samples, and their elements.
    fn rows(&self, x: &TensorMeta) -> (u64, u64) {
        (x.shape.dims()[0] * self.groups as u64, (self.channels / self.groups * self.positions) as u64)
    }
}
