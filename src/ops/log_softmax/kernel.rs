//! `log_softmax` keeps its output.

use super::rule::LogSoftmax;
use crate::device::Operand;
use crate::device::host::{Host, Real, Row, maximum, rows, sum, with_real};
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::softmax::kernel::{cuda_backward, cuda_forward};
use crate::tensor::Tensor;

fn log_softmax<R: Real>(host: &Host, x: Operand<'_>, out: Operand<'_>) {
    host.rows(rows(x), [Row::Each(x)], [out], |[x]: [&[R]; 1], [y]| {
        let most = maximum(x);
        let total = sum(x.len(), |i| (x[i] - most).exp()).ln();
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = x - most - total);
    });
}

fn log_softmax_backward<R: Real>(host: &Host, [y, grad, out]: [Operand<'_>; 3]) {
    host.rows(rows(y), [Row::Each(y), Row::Each(grad)], [out], |[y, grad]: [&[R]; 2], [out]| {
        let total = sum(grad.len(), |i| grad[i]);
        for (i, out) in out.iter_mut().enumerate() {
            *out = grad[i] - y[i].exp() * total;
        }
    });
}

impl OpKernel for LogSoftmax {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (x, out) = (inputs[0], exec.empty_like(inputs[0])?);
        exec.on_host(|host| with_real!([x, out], R => log_softmax::<R>(host, x.operand(), out.operand())));
        exec.on_cuda(|gpu| cuda_forward(gpu, "log_softmax_forward", x.operand(), out.operand()));
        Ok(Forward::saving_output(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let grad_input = exec.empty(at.input())?;
        let grad = exec.contiguous(at.grad())?;
        exec.on_host(|host| {
            let operands = [at.saved(0).operand(), grad.operand(), grad_input.operand()];
            with_real!([at.saved(0)], R => log_softmax_backward::<R>(host, operands));
        });
        exec.on_cuda(|gpu| cuda_backward(gpu, "log_softmax_backward", grad.operand(), at.saved(0).operand(), grad_input.operand()));
        Ok(vec![Some(grad_input)])
    }
}
