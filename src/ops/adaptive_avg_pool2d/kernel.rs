//! `adaptive_avg_pool2d` keeps its input, as PyTorch does; to one place it is the mean over the planes, which keeps nothing.

use super::rule::AdaptiveAvgPool2d;
use crate::device::cuda::{Arg, Kernel, Source, View};
use crate::device::host::{Host, Real, Row, map, with_real};
use crate::exec::{Combine, Exec, Result, cuda};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::window::{plane, planes};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "adaptive_avg_pool2d", text: include_str!("kernel.cu") };

/// The stretch of `size` elements that place `place` of `places` is the mean of.
fn stretch(size: usize, places: usize, place: usize) -> (usize, usize) {
    (place * size / places, ((place + 1) * size).div_ceil(places))
}

/// The windows of a plane in order: rows from and to, columns from and to.
fn windows([height, width]: [usize; 2], [rows, columns]: [usize; 2]) -> impl Iterator<Item = [usize; 4]> {
    (0..rows).flat_map(move |row| {
        let (top, bottom) = stretch(height, rows, row);
        (0..columns).map(move |column| {
            let (left, right) = stretch(width, columns, column);
            [top, bottom, left, right]
        })
    })
}

impl AdaptiveAvgPool2d {
    fn averages(&self) -> bool {
        self.output.iter().all(|&size| size == 1)
    }

    fn forward_on_host<R: Real>(host: &Host, x: &Tensor, out: &Tensor) {
        let (size, places) = (plane(x.meta()), plane(out.meta()));
        host.rows(planes(x.meta()), [Row::Each(x.operand())], [out.operand()], |[x]: [&[R]; 1], [y]| {
            for (y, [top, bottom, left, right]) in y.iter_mut().zip(windows(size, places)) {
                let sum: R = (top..bottom).map(|row| x[row * size[1] + left..row * size[1] + right].iter().copied().sum::<R>()).sum();
                *y = sum / R::of_count((bottom - top) * (right - left));
            }
        });
    }

    fn backward_on_host<R: Real>(host: &Host, grad: &Tensor, to: &Tensor) {
        let (size, places) = (plane(to.meta()), plane(grad.meta()));
        host.rows(planes(to.meta()), [Row::Each(grad.operand())], [to.operand()], |[grad]: [&[R]; 1], [to]| {
            to.fill(R::ZERO);
            for (&g, [top, bottom, left, right]) in grad.iter().zip(windows(size, places)) {
                let share = g / R::of_count((bottom - top) * (right - left));
                for row in top..bottom {
                    to[row * size[1] + left..row * size[1] + right].iter_mut().for_each(|to| *to += share);
                }
            }
        });
    }

    /// The gradient of a mean: spread out and divided, so that it is a tensor of its own.
    fn backward_of_mean(exec: &Exec, at: &Backward<'_>) -> Result<Tensor> {
        let out = exec.empty(at.input())?;
        let share = at.grad().meta().numel() as f64 / out.meta().numel() as f64;
        exec.on_host(|host| map!(host, (share = share), [at.grad()] => [out], |grad| [grad * share]));
        exec.on_cuda(|gpu| cuda::scale(gpu, at.grad().operand().spread(out.shape()).operand(), share, out.operand()));
        Ok(out)
    }
}

impl OpKernel for AdaptiveAvgPool2d {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(if self.averages() { Vec::new() } else { vec![Some(inputs[0].clone())] })
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        if self.averages() {
            return Ok(Forward::plain(exec.reduce(Combine::Mean, x, &[false, false, true, true])?));
        }
        let dims = x.shape().dims();
        let shape = Shape::new([dims[0], dims[1], self.output[0], self.output[1]]).expect("the shape was inferred before");
        let out = exec.empty(TensorMeta::contiguous(shape, x.dtype()))?;
        exec.on_host(|host| with_real!([x], R => Self::forward_on_host::<R>(host, x, &out)));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "adaptive_avg_pool2d_forward", types: &[x.dtype()] };
            let (n, from) = (out.meta().numel(), View::of(x.operand()));
            gpu.launch(kernel, gpu.full(n), &[&[n.into(), out.operand().into(), (&from).into()][..], &sizes(x, &out)].concat());
        });
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        if self.averages() {
            return Ok(vec![Some(Self::backward_of_mean(exec, at)?)]);
        }
        let to = exec.empty(at.input())?;
        let grad = exec.contiguous(at.grad())?;
        exec.on_host(|host| with_real!([grad], R => Self::backward_on_host::<R>(host, &grad, &to)));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "adaptive_avg_pool2d_backward", types: &[to.dtype()] };
            let n = to.meta().numel();
            gpu.launch(kernel, gpu.full(n), &[&[n.into(), to.operand().into(), grad.operand().into()][..], &sizes(&to, &grad)].concat());
        });
        Ok(vec![Some(to)])
    }
}

/// Sizes of the planes as the GPU's kernels take them.
fn sizes(x: &Tensor, out: &Tensor) -> Vec<Arg<'static>> {
    [&x.shape().dims()[2..], &out.shape().dims()[2..]].concat().into_iter().map(Arg::from).collect()
}
