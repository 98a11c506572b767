//! `max_pool2d` keeps its input and, of each window, where its largest element lay in the plane.

use super::rule::MaxPool2d;
use crate::device::cuda::{Arg, Kernel, Source, View};
use crate::device::host::{Host, Real, Row, with_real};
use crate::exec::{Exec, Result};
use crate::meta::DType;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::window::{plane, planes};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "max_pool2d", text: include_str!("kernel.cu") };

impl MaxPool2d {
    fn forward_on_host<R: Real>(&self, host: &Host, x: &Tensor, out: &Tensor, indices: &Tensor) {
        let ([height, width], [_, columns]) = (plane(x.meta()), plane(out.meta()));
        host.rows(planes(x.meta()), [Row::Each(x.operand())], [out.operand(), indices.operand()], |[x]: [&[R]; 1], [y, places]| {
            for (i, (y, place)) in y.iter_mut().zip(places).enumerate() {
                let (top, bottom) = self.window.inside(0, height, i / columns);
                let (left, right) = self.window.inside(1, width, i % columns);
                let mut at = top * width + left;
                let mut most = R::LOWEST;
                for row in top..bottom {
                    for column in left..right {
                        let value = x[row * width + column];
                        // What is not a number stays.
                        if value > most || value.to_f64().is_nan() {
                            (most, at) = (value, row * width + column);
                        }
                    }
                }
                *y = most;
                *place = R::of_count(at);
            }
        });
    }

    fn backward_on_host<R: Real>(host: &Host, grad: &Tensor, indices: &Tensor, to: &Tensor) {
        let reads = [Row::Each(grad.operand()), Row::Each(indices.operand())];
        host.rows(planes(to.meta()), reads, [to.operand()], |[grad, places]: [&[R]; 2], [to]| {
            to.fill(R::ZERO);
            for (&g, place) in grad.iter().zip(places) {
                to[place.to_f64() as usize] += g;
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

impl OpKernel for MaxPool2d {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let shape = self.window.pass("max_pool2d", x.meta()).expect("the shape was inferred before");
        let out = exec.empty(shape)?;
        let indices = exec.empty(out.meta().with_dtype(DType::I64))?;
        exec.on_host(|host| with_real!([x, indices], R => self.forward_on_host::<R>(host, x, &out, &indices)));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "max_pool2d_forward", types: &[x.dtype()] };
            let (n, from) = (out.meta().numel(), View::of(x.operand()));
            let head = [n.into(), out.operand().into(), indices.operand().into(), (&from).into()];
            gpu.launch(kernel, gpu.full(n), &[&head[..], &self.sizes(x, &out)].concat());
        });
        Ok(Forward::saving(out, [indices]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let to = exec.empty(at.input())?;
        let grad = exec.contiguous(at.grad())?;
        let indices = at.saved(1);
        exec.on_host(|host| with_real!([grad, indices], R => Self::backward_on_host::<R>(host, &grad, indices, &to)));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "max_pool2d_backward", types: &[to.dtype()] };
            let n = to.meta().numel();
            let head = [n.into(), to.operand().into(), grad.operand().into(), indices.operand().into()];
            gpu.launch(kernel, gpu.full(n), &[&head[..], &self.sizes(&to, &grad)].concat());
        });
        Ok(vec![Some(to)])
    }
}
