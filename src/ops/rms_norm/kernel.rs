//! `rms_norm`, fused: keeps its input and, for each row, the reciprocal root mean square.

use super::rule::RmsNorm;
use crate::device::Operand;
use crate::device::cuda::{Arg, Kernel, Source, View};
use crate::device::host::{Host, Real, Row, rows, sum, with_real};
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::kernel_row_norm::{Rows, allocate_gradients, row_statistics, sum_parameters};
use crate::tensor::Tensor;

fn rms_norm<R: Real>(host: &Host, eps: f64, x: Operand<'_>, weight: Operand<'_>, outputs: [Operand<'_>; 2]) {
    let eps = R::from_f64(eps);
    host.rows(rows(x), [Row::Each(x), Row::Shared(weight)], outputs, |[x, weight]: [&[R]; 2], [y, rstd]| {
        rstd[0] = R::ONE / (sum(x.len(), |i| x[i] * x[i]) / R::of_count(x.len()) + eps).sqrt();
        for (i, y) in y.iter_mut().enumerate() {
            *y = x[i] * rstd[0] * weight[i];
        }
    });
}

/// Gradients of x and weight, those that are wanted.
fn rms_norm_backward<R: Real>(
    host: &Host,
    grad: Operand<'_>,
    [x, weight, rstd]: [Operand<'_>; 3],
    [of_x, of_weight]: [Option<Operand<'_>>; 2],
) {
    if let Some(of_x) = of_x {
        let reads = [Row::Each(grad), Row::Each(x), Row::Shared(weight), Row::Each(rstd)];
        host.rows(rows(x), reads, [of_x], |[grad, x, weight, rstd]: [&[R]; 4], [out]| {
            let rstd = rstd[0];
            let slope = sum(x.len(), |i| grad[i] * weight[i] * x[i] * rstd) / R::of_count(x.len());
            for (i, out) in out.iter_mut().enumerate() {
                *out = rstd * (grad[i] * weight[i] - x[i] * rstd * slope);
            }
        });
    }
    if let Some(of_weight) = of_weight {
        let rstd = rstd.spread(&x.meta.shape);
        let width = x.meta.shape.last() as usize;
        let [sums] = host.sums([rows(x), width, 1], [grad, x, rstd.operand()], |[grad, x, rstd]: [R; 3]| [grad * x * rstd]);
        host.store(of_weight, &sums);
    }
}

static SOURCE: Source = Source { name: "rms_norm", text: include_str!("kernel.cu") };

impl OpKernel for RmsNorm {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(inputs.iter().map(|&t| Some(t.clone())).collect())
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = exec.contiguous(inputs[0])?;
        let out = exec.empty_like(&x)?;
        let rstd = exec.empty(row_statistics(x.meta()))?;
        exec.on_host(|host| {
            let outputs = [out.operand(), rstd.operand()];
            with_real!([x], R => rms_norm::<R>(host, self.eps, x.operand(), inputs[1].operand(), outputs));
        });
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "rms_norm_forward", types: &[x.dtype()] };
            let view = View::of(x.operand());
            let [y, rstd, weight] = [&out, &rstd, inputs[1]].map(|t| Arg::from(t.operand()));
            gpu.rows(kernel, x.shape().rows(), x.shape().last(), &[self.eps.into(), y, rstd, (&view).into(), weight]);
        });
        Ok(Forward::saving(out, [rstd]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let input = exec.contiguous(at.saved(0))?;
        let mut gradients = allocate_gradients(exec, at)?;
        let grad = exec.contiguous(at.grad())?;
        sum_parameters(exec, at, &Rows { grad: &grad, x: &input, mean: None, rstd: at.saved(2) }, &mut gradients[1..])?;
        let (x, parameters) = (&gradients[0], &gradients[1..]);
        exec.on_host(|host| {
            let saved = [input.operand(), at.saved(1).operand(), at.saved(2).operand()];
            let gradients = [x.as_ref().map(Tensor::operand), parameters[0].as_ref().map(Tensor::operand)];
            with_real!([grad], R => rms_norm_backward::<R>(host, grad.operand(), saved, gradients));
        });
        if let Some(out) = x {
            exec.on_cuda(|gpu| {
                let kernel = Kernel { source: &SOURCE, entry: "rms_norm_backward", types: &[out.dtype()] };
                let view = View::of(input.operand());
                let [y, grad, weight, rstd] = [out, &grad, at.saved(1), at.saved(2)].map(|t| Arg::from(t.operand()));
                gpu.rows(kernel, out.shape().rows(), out.shape().last(), &[y, grad, (&view).into(), weight, rstd]);
            });
        }
        Ok(gradients)
    }
}
