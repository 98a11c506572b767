//! `softmax` keeps its output. Backward takes the product of gradient and output as a temporary, after its result.

use super::rule::Softmax;
use crate::device::Operand;
use crate::device::cuda::{Cuda, Kernel, Source, View};
use crate::device::host::{Host, Real, Row, maximum, rows, sum, with_real};
use crate::exec::{Exec, Result};
use crate::meta::{DType, TensorMeta};
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

static SOURCE: Source = Source { name: "softmax", text: include_str!("kernel.cu") };

/// Rows of `x` to rows of `out`.
pub(in crate::ops) fn cuda_forward(cuda: &Cuda, entry: &'static str, x: Operand<'_>, out: Operand<'_>) {
    let kernel = Kernel { source: &SOURCE, entry, types: &[x.meta.dtype, out.meta.dtype] };
    cuda.rows(kernel, out.meta.shape.rows(), out.meta.shape.last(), &[out.into(), (&View::of(x)).into()]);
}

/// Rows of the gradient and of the result to rows of the input's gradient.
pub(in crate::ops) fn cuda_backward(cuda: &Cuda, entry: &'static str, grad: Operand<'_>, result: Operand<'_>, out: Operand<'_>) {
    let kernel = Kernel { source: &SOURCE, entry, types: &[out.meta.dtype, result.meta.dtype] };
    cuda.rows(kernel, out.meta.shape.rows(), out.meta.shape.last(), &[out.into(), (&View::of(grad)).into(), (&View::of(result)).into()]);
}

impl OpKernel for Softmax {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let dtype = if self.to_f32 { DType::F32 } else { x.dtype() };
        let out = exec.empty(x.meta().with_dtype(dtype))?;
        let rows = exec.contiguous(x)?;
        exec.on_host(|host| with_real!([x, out], R => softmax::<R>(host, rows.operand(), out.operand())));
        exec.on_cuda(|gpu| cuda_forward(gpu, "softmax_forward", rows.operand(), out.operand()));
        drop(rows);
        if self.safe {
            let row = x.shape().with_last(1).expect("fewer elements than all rows");
            let _masked = exec.empty(x.meta().with_dtype(DType::Bool))?;
            let _rows = exec.empty(TensorMeta::contiguous(row, DType::Bool))?;
            let _zero = exec.empty(TensorMeta::scalar(out.dtype()))?;
        }
        Ok(Forward::saving_output(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let grad_input = exec.empty(at.input())?;
        // The kernels here need no product; PyTorch's do, and read its rows.
        let product = exec.empty_over(at.grad(), at.saved(0))?;
        if !product.meta().is_contiguous() {
            let _rows = exec.empty_like(&product)?;
        }
        exec.on_host(|host| {
            let operands = [at.saved(0).operand(), at.grad().operand(), grad_input.operand()];
            with_real!([at.saved(0)], R => softmax_backward::<R>(host, operands));
        });
        exec.on_cuda(|gpu| cuda_backward(gpu, "softmax_backward", at.grad().operand(), at.saved(0).operand(), grad_input.operand()));
        Ok(vec![Some(grad_input)])
    }
}
