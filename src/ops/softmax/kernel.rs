//! `softmax` keeps its output. Backward takes the product of gradient and output as a temporary, after its result.

use super::rule::Softmax;
use crate::device::Operand;
use crate::device::host::{Host, Real, Row, maximum, rows, sum, with_real};
use crate::exec::{Exec, Result};
use crate::meta::DType;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

fn softmax<R: Real>(host: &Host, x: Operand<'_>, out: Operand<'_>) {
    host.rows(rows(x), [Row::Each(x)], [out], |[x]: [&[R]; 1], [y]| {
        let most = maximum(x);
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = (x - most).exp());
        let total = sum(y.len(), |i| y[i]);
        y.iter_mut().for_each(|y| *y = *y / total);
    });
}

fn softmax_backward<R: Real>(host: &Host, [y, grad, out]: [Operand<'_>; 3]) {
    host.rows(rows(y), [Row::Each(y), Row::Each(grad)], [out], |[y, grad]: [&[R]; 2], [out]| {
        let total = sum(y.len(), |i| y[i] * grad[i]);
        for (i, out) in out.iter_mut().enumerate() {
            *out = (grad[i] - total) * y[i];
        }
    });
}

impl OpKernel for Softmax {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let dtype = if self.to_f32 { DType::F32 } else { x.dtype() };
        let out = exec.empty(x.meta().with_dtype(dtype))?;
        exec.on_host(|host| with_real!([x, out], R => softmax::<R>(host, x.operand(), out.operand())));
        Ok(Forward::saving_output(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let grad_input = exec.empty(at.input())?;
        let _product = exec.empty_like(at.grad())?;
        exec.on_host(|host| {
            let operands = [at.saved(0).operand(), at.grad().operand(), grad_input.operand()];
            with_real!([at.saved(0)], R => softmax_backward::<R>(host, operands));
        });
        Ok(vec![Some(grad_input)])
    }
}
