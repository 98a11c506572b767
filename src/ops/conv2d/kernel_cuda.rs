//! What `conv2d` computes on a GPU: by cuDNN, or, with one channel a group, by kernels of this program.

use super::rule::Conv2d;
use crate::device::cuda::{Arg, ConvolutionTensors, Cuda, Grid, Kernel, Source, Workspace};
use crate::exec::cuda::add;
use crate::meta::{Shape, TensorMeta};
use crate::scratch::Direction;
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "conv2d", text: include_str!("kernel.cu") };

/// The three tensors of a convolution, one of them yet to be computed.
#[derive(Clone, Copy)]
pub(super) struct Tensors<'a> {
    pub(super) x: &'a Tensor,
    pub(super) y: &'a Tensor,
    pub(super) w: &'a Tensor,
}

impl Conv2d {
    /// By cuDNN, in a workspace of the size that it asked for.
    pub(super) fn by_cudnn(&self, cuda: &Cuda, direction: Direction, t: Tensors<'_>, workspace: Workspace) {
        let call = self.call(direction, t.x.meta(), t.w.meta());
        let [x, y, w] = [t.x, t.y, t.w].map(|t| t.operand().address);
        cuda.convolve(&call, ConvolutionTensors { x, y, w }, workspace);
    }

    /// The bias, added to what is there.
    pub(super) fn add_bias_on_cuda(cuda: &Cuda, bias: &Tensor, out: &Tensor) {
        let shape = Shape::new([bias.meta().numel(), 1, 1]).expect("as many elements as before");
        let column = TensorMeta::contiguous(shape, bias.dtype());
        add(cuda, out.operand(), bias.operand().with(&column), out.operand());
    }

    /// Sizes as the kernels take them.
    fn sizes(&self, t: Tensors<'_>) -> Vec<Arg<'static>> {
        let (x, y, w) = (t.x.shape().dims(), t.y.shape().dims(), t.w.shape().dims());
        let multiple = [y[1] / x[1]];
        let all = [&multiple[..], &x[2..], &y[2..], &w[2..], &self.stride, &self.padding, &self.dilation].concat();
        all.into_iter().map(Arg::from).collect()
    }

    pub(super) fn depthwise_on_cuda(&self, cuda: &Cuda, t: Tensors<'_>, bias: Option<&Tensor>) {
        let (n, channels) = (t.y.meta().numel(), t.y.shape().dims()[1]);
        let bias = bias.map_or(Arg::from(0u64), |b| b.operand().into());
        let head = [n.into(), channels.into(), t.y.operand().into(), t.x.operand().into(), t.w.operand().into(), bias];
        let kernel = Kernel { source: &SOURCE, entry: "conv_depthwise2d_forward", types: &[t.y.dtype()] };
        cuda.launch(kernel, cuda.full(n), &[&head[..], &self.sizes(t)].concat());
    }

    pub(super) fn depthwise_grad_input_on_cuda(&self, cuda: &Cuda, t: Tensors<'_>) {
        let (n, channels) = (t.x.meta().numel(), t.y.shape().dims()[1]);
        let head = [n.into(), channels.into(), t.x.operand().into(), t.y.operand().into(), t.w.operand().into()];
        let kernel = Kernel { source: &SOURCE, entry: "conv_depthwise2d_grad_input", types: &[t.x.dtype()] };
        cuda.launch(kernel, cuda.full(n), &[&head[..], &self.sizes(t)].concat());
    }

    pub(super) fn depthwise_grad_weight_on_cuda(&self, cuda: &Cuda, t: Tensors<'_>) {
        let (samples, channels) = (t.y.shape().dims()[0], t.y.shape().dims()[1]);
        let head = [samples.into(), channels.into(), t.w.operand().into(), t.x.operand().into(), t.y.operand().into()];
        let kernel = Kernel { source: &SOURCE, entry: "conv_depthwise2d_grad_weight", types: &[t.w.dtype()] };
        let grid = Grid::line(u32::try_from(t.w.meta().numel()).expect("a depthwise weight is small"), 256);
        cuda.launch(kernel, grid, &[&head[..], &self.sizes(t)].concat());
    }
}
