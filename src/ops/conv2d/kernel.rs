//! `conv2d` keeps input and weight. cuDNN's workspace comes and goes within each of its three calls.

use super::kernel_cuda::Tensors;
use super::rule::Conv2d;
use crate::exec::{CallWorkspace, Combine, Exec, Result};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::scratch::{Direction, Request};
use crate::tensor::Tensor;

/// Who computes in PyTorch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Cudnn,
    /// `conv_depthwise2d`.
    Depthwise,
}

impl Conv2d {
    fn by(&self, x: &TensorMeta, weight: &TensorMeta) -> By {
        let (x_dims, window) = (x.shape.dims(), &weight.shape.dims()[2..]);
        let (samples, channels, width) = (x_dims[0], x_dims[1], x_dims[3]);
        if channels < 2 || channels != self.groups {
            return By::Cudnn;
        }
        // `check_cudnn_depthwise_workload_with_filter`: only f16, and there only what was measured to be faster.
        let line = x_dims[2] == 1;
        if x.dtype != DType::F16 || channels < 32 || self.dilation != [1, 1] || !(line || self.stride[0] == self.stride[1]) {
            return By::Depthwise;
        }
        let step = self.stride[1];
        if line && step == 1 {
            return By::Cudnn;
        }
        let side = window[1];
        let measured = window[0] == side && [1, 3, 5].contains(&side) && width >= 7 && step <= 2;
        let small = if samples == 1 { width <= 28 } else { samples <= 16 && channels >= 128 && width <= 7 };
        let large = samples == 1 || channels >= 512 || (width >= 28 && channels >= 256);
        let faster = step == 1 || if side == 1 { small } else { large };
        if measured && faster { By::Cudnn } else { By::Depthwise }
    }

    fn call_workspace(&self, exec: &Exec, direction: Direction, x: &TensorMeta, weight: &TensorMeta) -> Result<CallWorkspace> {
        exec.call_workspace(&Request::Convolution(self.call(direction, x, weight)))
    }
}

impl OpKernel for Conv2d {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (x, weight) = (inputs[0], inputs[1]);
        let bias = self.bias.then(|| inputs[2]);
        let [batch, channels, height, width] = self.call(Direction::Forward, x.meta(), weight.meta()).output();
        let shape = Shape::new([batch, channels, height, width]).expect("the output's shape was inferred before");
        let out = exec.empty(TensorMeta::contiguous(shape, x.dtype()))?;
        let tensors = Tensors { x, y: &out, w: weight };
        match self.by(x.meta(), weight.meta()) {
            By::Cudnn => {
                let workspace = self.call_workspace(exec, Direction::Forward, x.meta(), weight.meta())?;
                exec.on_cuda(|gpu| {
                    self.by_cudnn(gpu, Direction::Forward, tensors, workspace.on_cuda());
                    bias.into_iter().for_each(|bias| Self::add_bias_on_cuda(gpu, bias, &out));
                });
            }
            By::Depthwise => exec.on_cuda(|gpu| self.depthwise_on_cuda(gpu, tensors, bias)),
        }
        exec.on_host(|host| self.forward_on_host(host, x, weight, bias, &out));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (x, weight) = (at.saved(0), at.saved(1));
        let new = |i: usize| exec.empty(at.inputs[i].clone());
        let (mut of_input, mut of_weight) = (None, None);
        match self.by(x.meta(), weight.meta()) {
            By::Depthwise if at.needs[0] || at.needs[1] => {
                let grad = exec.contiguous(at.grad())?;
                of_weight = at.needs[1].then(|| new(1)).transpose()?;
                of_input = at.needs[0].then(|| new(0)).transpose()?;
                if let Some(to) = &of_weight {
                    exec.on_host(|host| self.grad_weight_on_host(host, x, &grad, to));
                    exec.on_cuda(|gpu| self.depthwise_grad_weight_on_cuda(gpu, Tensors { x, y: &grad, w: to }));
                }
                if let Some(to) = &of_input {
                    exec.on_host(|host| self.grad_input_on_host(host, &grad, weight, to));
                    exec.on_cuda(|gpu| self.depthwise_grad_input_on_cuda(gpu, Tensors { x: to, y: &grad, w: weight }));
                }
            }
            By::Depthwise => {}
            By::Cudnn => {
                if at.needs[0] {
                    let to = new(0)?;
                    let grad = exec.contiguous(at.grad())?;
                    let workspace = self.call_workspace(exec, Direction::GradInput, x.meta(), weight.meta())?;
                    exec.on_host(|host| self.grad_input_on_host(host, &grad, weight, &to));
                    let tensors = Tensors { x: &to, y: &grad, w: weight };
                    exec.on_cuda(|gpu| self.by_cudnn(gpu, Direction::GradInput, tensors, workspace.on_cuda()));
                    drop(workspace);
                    of_input = Some(to);
                }
                if at.needs[1] {
                    let grad = exec.contiguous(at.grad())?;
                    let to = new(1)?;
                    let workspace = self.call_workspace(exec, Direction::GradWeight, x.meta(), weight.meta())?;
                    exec.on_host(|host| self.grad_weight_on_host(host, x, &grad, &to));
                    let tensors = Tensors { x, y: &grad, w: &to };
                    exec.on_cuda(|gpu| self.by_cudnn(gpu, Direction::GradWeight, tensors, workspace.on_cuda()));
                    drop(workspace);
                    of_weight = Some(to);
                }
            }
        }
        let mut gradients = vec![of_input, of_weight];
        if self.bias {
            gradients.push(if at.needs[2] { Some(bias_gradient(exec, at.grad(), &at.inputs[2])?) } else { None });
        }
        Ok(gradients)
    }
}

/// Sums over everything but the channels.
fn bias_gradient(exec: &Exec, grad: &Tensor, bias: &TensorMeta) -> Result<Tensor> {
    let sum = exec.reduce(Combine::Sum, grad, &[true, false, true, true])?;
    Ok(sum.view(bias.clone()))
}
