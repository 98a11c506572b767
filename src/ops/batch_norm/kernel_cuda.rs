//! What `batch_norm` computes on a GPU.

use super::rule::BatchNorm;
use crate::device::cuda::{Arg, Cuda, Grid, Kernel, Source, View};
use crate::ops::kernel::Backward;
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "batch_norm", text: include_str!("kernel.cu") };

/// Blocks that share the rows of a matrix, and scratch for what each of them finds: two figures a channel. A block alone needs none.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) count: u32,
    pub(super) address: u64,
}

impl Parts {
    /// Where the two figures of all parts go; those of a block alone, straight to where they are wanted.
    fn addresses(self, channels: u64, wanted: [&Tensor; 2]) -> [Arg<'static>; 2] {
        if self.count == 1 {
            return wanted.map(|t| Arg::from(t.operand().address));
        }
        let one = u64::from(self.count) * channels * wanted[0].dtype().bytes();
        [Arg::from(self.address), Arg::from(self.address + one)]
    }
}

/// `[samples, channels, inner]`.
fn sides(x: &Tensor) -> [u64; 3] {
    let dims = x.shape().dims();
    [dims[0], dims[1], dims[2..].iter().product()]
}

/// A block a channel: few threads where there is little for each.
fn planes(samples: u64, channels: u64, inner: u64) -> Grid {
    const MUCH: u64 = 1 << 14;
    Grid::line(channels as u32, if samples * inner < MUCH { 256 } else { 1024 })
}

fn at(t: &Tensor) -> Arg<'static> {
    Arg::from(t.operand().address)
}

fn at_some(t: Option<&Tensor>) -> Arg<'static> {
    t.map_or(Arg::from(0u64), at)
}

fn launch(cuda: &Cuda, entry: &'static str, [x, weight]: [&Tensor; 2], grid: Grid, args: &[Arg<'_>]) {
    cuda.launch(Kernel { source: &SOURCE, entry, types: &[x.dtype(), weight.dtype()] }, grid, args);
}

impl BatchNorm {
    /// Normalises by the batch, keeps its mean and reciprocal deviation, and moves the running statistics.
    pub(super) fn train_on_cuda(&self, cuda: &Cuda, inputs: &[&Tensor], out: &Tensor, statistics: [&Tensor; 2], parts: Parts) {
        let (x, weight, types) = (inputs[0], inputs[1], [inputs[0], inputs[1]]);
        let [samples, channels, inner] = sides(x);
        let view = View::of(x.operand());
        let [first, second] = parts.addresses(channels, statistics);
        if inner == 1 {
            let args = [samples.into(), channels.into(), first, second, (&view).into()];
            launch(cuda, "batch_norm_moments", types, Grid::columns(channels, parts.count), &args);
        } else {
            let args = [samples.into(), channels.into(), inner.into(), first, second, (&view).into()];
            launch(cuda, "batch_norm_moments_of_planes", types, planes(samples, channels, inner), &args);
        }
        let [mean, invstd] = statistics.map(at);
        let sizes = [samples, channels, inner, parts.count.into()].map(Arg::from);
        let running = [at(inputs[3]), at(inputs[4]), at(inputs[5])];
        let args = [&sizes[..], &[self.eps.into(), self.momentum.into(), mean, invstd], &running, &[first, second]].concat();
        launch(cuda, "batch_norm_statistics", types, Grid::each(channels), &args);
        let n = x.meta().numel();
        let to = View::of(out.operand());
        let args = [n.into(), channels.into(), inner.into(), (&to).into(), (&view).into(), mean, invstd, at(weight), at(inputs[2])];
        launch(cuda, "batch_norm_transform", types, cuda.full(n), &args);
    }

    /// Normalises by the running statistics.
    pub(super) fn evaluate_on_cuda(&self, cuda: &Cuda, inputs: &[&Tensor], out: &Tensor) {
        let [_, channels, inner] = sides(inputs[0]);
        let (n, view) = (out.meta().numel(), View::of(inputs[0].operand()));
        let sizes = [n, channels, inner].map(Arg::from);
        let to = View::of(out.operand());
        let rest = [(&to).into(), (&view).into(), at(inputs[3]), at(inputs[4]), at(inputs[1]), at(inputs[2])];
        let args = [&sizes[..], &[self.eps.into()], &rest].concat();
        launch(cuda, "batch_norm_inference", [inputs[0], inputs[1]], cuda.full(n), &args);
    }

    /// The two sums over a matrix's rows that all gradients are made of in training, and with them the gradients of weight and bias.
    pub(super) fn sum_on_cuda(&self, cuda: &Cuda, back: &Backward<'_>, gradients: &[Option<Tensor>], sums: [&Tensor; 2], parts: Parts) {
        let types = [back.saved(0), back.saved(1)];
        let [samples, channels, _] = sides(types[0]);
        let (x, grad) = (View::of(types[0].operand()), View::of(back.grad().operand()));
        let [first, second] = parts.addresses(channels, sums);
        let args = [samples.into(), channels.into(), first, second, (&grad).into(), (&x).into(), at(back.saved(4))];
        launch(cuda, "batch_norm_sums", types, Grid::columns(channels, parts.count), &args);
        let parameters = [at_some(gradients[1].as_ref()), at_some(gradients[2].as_ref())];
        let sizes = [channels, parts.count.into()].map(Arg::from);
        let args = [&sizes[..], &sums.map(at), &parameters, &[at(back.saved(5)), first, second]].concat();
        launch(cuda, "batch_norm_parameters", types, Grid::each(channels), &args);
    }

    /// The gradient of a matrix, once its sums are there.
    pub(super) fn backward_on_cuda(&self, cuda: &Cuda, back: &Backward<'_>, gradients: &[Option<Tensor>], sums: [&Tensor; 2]) {
        let Some(out) = &gradients[0] else { return };
        let types = [back.saved(0), back.saved(1)];
        let [samples, channels, _] = sides(types[0]);
        let (x, grad) = (View::of(types[0].operand()), View::of(back.grad().operand()));
        let statistics = [4, 5, 1].map(|i| at(back.saved(i)));
        let to = View::of(out.operand());
        let head = [samples.into(), channels.into(), (&to).into(), (&grad).into(), (&x).into()];
        launch(cuda, "batch_norm_backward", types, cuda.full(out.meta().numel()), &[&head[..], &statistics, &sums.map(at)].concat());
    }

    /// All gradients at once, a block a channel.
    pub(super) fn backward_of_planes_on_cuda(&self, cuda: &Cuda, back: &Backward<'_>, gradients: &[Option<Tensor>]) {
        let types = [back.saved(0), back.saved(1)];
        let [samples, channels, inner] = sides(types[0]);
        let sizes = [samples, channels, inner].map(Arg::from);
        let (x, grad) = (View::of(types[0].operand()), View::of(back.grad().operand()));
        let to = View::of(gradients[0].as_ref().unwrap_or(types[0]).operand());
        let outputs =
            [u32::from(gradients[0].is_some()).into(), (&to).into(), at_some(gradients[1].as_ref()), at_some(gradients[2].as_ref())];
        // Evaluation kept no statistics of its batch.
        let statistics = [4, 5].map(|i| at_some(back.saved.get(i).and_then(Option::as_ref)));
        let rest = [at(back.saved(1)), at(back.saved(2)), at(back.saved(3))];
        let settings = [u32::from(!self.training).into(), self.eps.into()];
        let args = [&sizes[..], &settings, &outputs, &[(&grad).into(), (&x).into()], &statistics, &rest].concat();
        launch(cuda, "batch_norm_backward_of_planes", types, planes(samples, channels, inner), &args);
    }
}
