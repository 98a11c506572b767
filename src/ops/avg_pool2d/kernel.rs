//! `avg_pool2d` keeps its input, as PyTorch does.

use super::rule::AvgPool2d;
use crate::device::cuda::{Arg, Kernel, Source, View};
use crate::device::host::{Host, Real, Row, with_real};
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::window::{plane, planes};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "avg_pool2d", text: include_str!("kernel.cu") };

impl AvgPool2d {
    /// Elements of a window.
    fn area<R: Real>(&self) -> R {
        R::from_f64((self.window.size[0] * self.window.size[1]) as f64)
    }

    fn forward_on_host<R: Real>(&self, host: &Host, x: &Tensor, out: &Tensor) {
        let ([height, width], [_, columns]) = (plane(x.meta()), plane(out.meta()));
        host.rows(planes(x.meta()), [Row::Each(x.operand())], [out.operand()], |[x]: [&[R]; 1], [y]| {
            for (i, y) in y.iter_mut().enumerate() {
                let (top, bottom) = self.window.inside(0, height, i / columns);
                let (left, right) = self.window.inside(1, width, i % columns);
                let sum: R = (top..bottom).map(|row| x[row * width + left..row * width + right].iter().copied().sum::<R>()).sum();
                *y = sum / self.area();
            }
        });
    }

    fn backward_on_host<R: Real>(&self, host: &Host, grad: &Tensor, to: &Tensor) {
        let ([height, width], [_, columns]) = (plane(to.meta()), plane(grad.meta()));
        host.rows(planes(to.meta()), [Row::Each(grad.operand())], [to.operand()], |[grad]: [&[R]; 1], [to]| {
            to.fill(R::ZERO);
            for (i, &g) in grad.iter().enumerate() {
                let (top, bottom) = self.window.inside(0, height, i / columns);
                let (left, right) = self.window.inside(1, width, i % columns);
                let share = g / self.area();
                for row in top..bottom {
                    to[row * width + left..row * width + right].iter_mut().for_each(|to| *to += share);
                }
            }
        });
    }

    /// Sizes as the GPU's kernels take them.
    fn sizes(&self, x: &Tensor, out: &Tensor) -> Vec<Arg<'static>> {
        let (x, out) = (&x.shape().dims()[2..], &out.shape().dims()[2..]);
        let window = &self.window;
        [x, out, &window.size, &window.stride, &window.padding].concat().into_iter().map(Arg::from).collect()
    }
}

impl OpKernel for AvgPool2d {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let out = exec.empty(self.window.pass("avg_pool2d", x.meta()).expect("the shape was inferred before"))?;
        exec.on_host(|host| with_real!([x], R => self.forward_on_host::<R>(host, x, &out)));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "avg_pool2d_forward", types: &[x.dtype()] };
            let (n, from) = (out.meta().numel(), View::of(x.operand()));
            gpu.launch(kernel, gpu.full(n), &[&[n.into(), out.operand().into(), (&from).into()][..], &self.sizes(x, &out)].concat());
        });
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let to = exec.empty(at.input())?;
        let grad = exec.contiguous(at.grad())?;
        exec.on_host(|host| with_real!([grad], R => self.backward_on_host::<R>(host, &grad, &to)));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "avg_pool2d_backward", types: &[to.dtype()] };
            let n = to.meta().numel();
            gpu.launch(
                kernel,
                gpu.full(n),
                &[&[n.into(), to.operand().into(), grad.operand().into()][..], &self.sizes(&to, &grad)].concat(),
            );
        });
        Ok(vec![Some(to)])
    }
}
