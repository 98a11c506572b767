//! `layer_norm` keeps its input and, for each row, mean and reciprocal deviation.

use super::rule::LayerNorm;
use crate::device::Operand;
use crate::device::cuda::{Arg, Kernel, Source, View};
use crate::device::host::{Host, Real, Row, rows, sum, with_real};
use crate::exec::{Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::kernel_row_norm::{Rows, allocate_gradients, row_statistics, sum_parameters};
use crate::tensor::Tensor;

fn layer_norm<R: Real>(host: &Host, eps: f64, x: Operand<'_>, weight: Operand<'_>, bias: Option<Operand<'_>>, outputs: [Operand<'_>; 3]) {
    let eps = R::from_f64(eps);
    let nothing = TensorMeta::contiguous(Shape::new([0]).expect("no elements"), weight.meta.dtype);
    let bias = bias.unwrap_or(Operand { address: 0, meta: &nothing });
    host.rows(rows(x), [Row::Each(x), Row::Shared(weight), Row::Shared(bias)], outputs, |[x, weight, bias]: [&[R]; 3], [y, mean, rstd]| {
        let n = R::of_count(x.len());
        mean[0] = sum(x.len(), |i| x[i]) / n;
        let variance = sum(x.len(), |i| (x[i] - mean[0]) * (x[i] - mean[0])) / n;
        rstd[0] = R::ONE / (variance + eps).sqrt();
        for (i, y) in y.iter_mut().enumerate() {
            *y = (x[i] - mean[0]) * rstd[0] * weight[i];
        }
        y.iter_mut().zip(bias).for_each(|(y, &bias)| *y += bias);
    });
}

/// Gradients of x, weight and bias, those that are wanted.
fn layer_norm_backward<R: Real>(
    host: &Host,
    grad: Operand<'_>,
    [x, weight, mean, rstd]: [Operand<'_>; 4],
    gradients: [Option<Operand<'_>>; 3],
) {
    let [of_x, of_weight, of_bias] = gradients;
    if let Some(of_x) = of_x {
        let reads = [Row::Each(grad), Row::Each(x), Row::Shared(weight), Row::Each(mean), Row::Each(rstd)];
        host.rows(rows(x), reads, [of_x], |[grad, x, weight, mean, rstd]: [&[R]; 5], [out]| {
            let (n, mean, rstd) = (R::of_count(x.len()), mean[0], rstd[0]);
            let share = sum(x.len(), |i| grad[i] * weight[i]) / n;
            let slope = sum(x.len(), |i| grad[i] * weight[i] * (x[i] - mean) * rstd) / n;
            for (i, out) in out.iter_mut().enumerate() {
                *out = rstd * (grad[i] * weight[i] - share - (x[i] - mean) * rstd * slope);
            }
        });
    }
    let (mean, rstd) = (mean.spread(&x.meta.shape), rstd.spread(&x.meta.shape));
    let reads = [grad, x, mean.operand(), rstd.operand()];
    let width = x.meta.shape.last() as usize;
    let [products, grads] = host.sums([rows(x), width, 1], reads, |[grad, x, mean, rstd]: [R; 4]| [grad * (x - mean) * rstd, grad]);
    for (to, sums) in [(of_weight, products), (of_bias, grads)] {
        if let Some(to) = to {
            host.store(to, &sums);
        }
    }
}

static SOURCE: Source = Source { name: "layer_norm", text: include_str!("kernel.cu") };

impl OpKernel for LayerNorm {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(inputs.iter().map(|&t| Some(t.clone())).collect())
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = exec.contiguous(inputs[0])?;
        let out = exec.empty_like(&x)?;
        let mean = exec.empty(row_statistics(x.meta()))?;
        let rstd = exec.empty(mean.shared_meta())?;
        exec.on_host(|host| {
            let bias = inputs.get(2).map(|b| b.operand());
            let outputs = [out.operand(), mean.operand(), rstd.operand()];
            with_real!([x], R => layer_norm::<R>(host, self.eps, x.operand(), inputs[1].operand(), bias, outputs));
        });
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "layer_norm_forward", types: &[x.dtype()] };
            let (view, bias) = (View::of(x.operand()), inputs.get(2).map_or(Arg::from(0u64), |b| b.operand().into()));
            let [y, mean, rstd, weight] = [&out, &mean, &rstd, inputs[1]].map(|t| Arg::from(t.operand()));
            gpu.rows(kernel, x.shape().rows(), x.shape().last(), &[self.eps.into(), y, mean, rstd, (&view).into(), weight, bias]);
        });
        Ok(Forward::saving(out, [mean, rstd]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let input = exec.contiguous(at.saved(0))?;
        let mut gradients = allocate_gradients(exec, at)?;
        let grad = exec.contiguous(at.grad())?;
        let (mean, rstd) = (at.saved(at.inputs.len()), at.saved(at.inputs.len() + 1));
        sum_parameters(exec, at, &Rows { grad: &grad, x: &input, mean: Some(mean), rstd }, &mut gradients[1..])?;
        let (x, parameters) = (&gradients[0], &gradients[1..]);
        exec.on_host(|host| {
            let (mean, rstd) = (at.saved(at.inputs.len()).operand(), at.saved(at.inputs.len() + 1).operand());
            let saved = [input.operand(), at.saved(1).operand(), mean, rstd];
            let mut gradients = parameters.iter().map(|g| g.as_ref().map(Tensor::operand));
            let gradients = [x.as_ref().map(Tensor::operand), gradients.next().flatten(), gradients.next().flatten()];
            with_real!([grad], R => layer_norm_backward::<R>(host, grad.operand(), saved, gradients));
        });
        if let Some(out) = x {
            exec.on_cuda(|gpu| {
                let kernel = Kernel { source: &SOURCE, entry: "layer_norm_backward", types: &[out.dtype()] };
                let view = View::of(input.operand());
                let [y, grad, weight] = [out, &grad, at.saved(1)].map(|t| Arg::from(t.operand()));
                let [mean, rstd] = [0, 1].map(|i| Arg::from(at.saved(at.inputs.len() + i).operand()));
                gpu.rows(kernel, out.shape().rows(), out.shape().last(), &[y, grad, (&view).into(), weight, mean, rstd]);
            });
        }
        Ok(gradients)
    }
}
