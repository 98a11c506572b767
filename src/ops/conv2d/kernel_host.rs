//! What `conv2d` computes on the host: each sample's windows unfolded into the columns of a matrix, and matrix products. PyTorch's two
//! implementations compute the same.

use rayon::prelude::*;

use super::rule::Conv2d;
use crate::device::Operand;
use crate::device::host::{Factor, Field, Host, View, multiply, with_real};
use crate::scratch::Direction;
use crate::tensor::Tensor;

/// Partial sums of the weight's gradient: samples are shared among so many, whatever the number of threads.
const PARTS: usize = 16;

/// Sizes as indices.
#[derive(Clone, Copy)]
struct Sides {
    samples: usize,
    groups: usize,
    /// Channels of a group, of the input and of the output.
    channels: [usize; 2],
    input: [usize; 2],
    window: [usize; 2],
    output: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
}

impl Sides {
    /// Elements of a group of one sample: of the input, of the unfolded windows, of the output.
    fn of_input(&self) -> usize {
        self.channels[0] * self.input[0] * self.input[1]
    }

    fn depth(&self) -> usize {
        self.channels[0] * self.window[0] * self.window[1]
    }

    fn places(&self) -> usize {
        self.output[0] * self.output[1]
    }

    fn of_output(&self) -> usize {
        self.channels[1] * self.places()
    }

    /// Whether the input is its own unfolding.
    fn is_plain(&self) -> bool {
        self.window == [1, 1] && self.stride == [1, 1] && self.padding == [0, 0]
    }

    /// Calls `visit(row, column, length, first, step)` for each run of `length` windows whose element `row` lies in the input: the run
    /// begins at `column`, its elements at `first`, `step` apart.
    fn runs(&self, mut visit: impl FnMut(usize, usize, usize, usize, usize)) {
        let [height, width] = self.input;
        let [tall, wide] = self.window;
        // The windows of which the element lies inside.
        let inside = |axis: usize, at: usize| {
            let (stride, shift) = (self.stride[axis], at * self.dilation[axis]);
            let begin = self.padding[axis].saturating_sub(shift).div_ceil(stride);
            let end = (self.input[axis] + self.padding[axis]).saturating_sub(shift).div_ceil(stride).min(self.output[axis]);
            begin..end.max(begin)
        };
        for row in 0..self.depth() {
            let (channel, i, j) = (row / (tall * wide), row / wide % tall, row % wide);
            let columns = inside(1, j);
            if columns.is_empty() {
                continue;
            }
            for y in inside(0, i) {
                let down = y * self.stride[0] + i * self.dilation[0] - self.padding[0];
                let across = columns.start * self.stride[1] + j * self.dilation[1] - self.padding[1];
                let first = (channel * height + down) * width + across;
                visit(row, y * self.output[1] + columns.start, columns.len(), first, self.stride[1]);
            }
        }
    }

    /// Windows to columns.
    fn unfold<R: Field>(&self, input: &[R], columns: &mut [R]) {
        columns.fill(R::ZERO);
        let places = self.places();
        self.runs(|row, column, length, first, step| {
            let to = &mut columns[row * places + column..][..length];
            to.iter_mut().zip(input[first..].iter().step_by(step)).for_each(|(to, from)| *to = *from);
        });
    }

    /// Columns added up where their elements come from.
    fn fold<R: Field>(&self, columns: &[R], input: &mut [R]) {
        let places = self.places();
        self.runs(|row, column, length, first, step| {
            let from = &columns[row * places + column..][..length];
            input[first..].iter_mut().step_by(step).zip(from).for_each(|(to, from)| *to += *from);
        });
    }

    /// The columns of a group of one sample: unfolded into `buffer`, or the input itself.
    fn columns<'a, R: Field>(&self, input: &'a [R], buffer: &'a mut Vec<R>) -> &'a [R] {
        if self.is_plain() {
            return input;
        }
        buffer.resize(self.depth() * self.places(), R::ZERO);
        self.unfold(input, buffer);
        buffer
    }
}

impl Conv2d {
    pub(super) fn forward_on_host(&self, host: &Host, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, out: &Tensor) {
        with_real!([x], R => self.forward::<R>(host, x, weight, bias, out.operand()));
    }

    pub(super) fn grad_input_on_host(&self, host: &Host, grad: &Tensor, weight: &Tensor, to: &Tensor) {
        with_real!([grad], R => self.grad_input::<R>(host, grad, weight, to));
    }

    pub(super) fn grad_weight_on_host(&self, host: &Host, x: &Tensor, grad: &Tensor, to: &Tensor) {
        with_real!([grad], R => self.grad_weight::<R>(host, x, grad, to));
    }

    fn sides(&self, x: &Tensor, weight: &Tensor) -> Sides {
        let call = self.call(Direction::Forward, x.meta(), weight.meta());
        let size = |n: u64| usize::try_from(n).expect("the host addresses what it computes on");
        let pair = |p: [u64; 2]| p.map(size);
        let [_, _, height, width] = call.output();
        Sides {
            samples: size(call.input[0]),
            groups: size(self.groups),
            channels: pair([call.weight[1], call.weight[0] / self.groups]),
            input: pair([call.input[2], call.input[3]]),
            window: pair([call.weight[2], call.weight[3]]),
            output: pair([height, width]),
            stride: pair(self.stride),
            padding: pair(self.padding),
            dilation: pair(self.dilation),
        }
    }

    fn forward<R: Field>(&self, host: &Host, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, out: Operand<'_>) {
        let s = self.sides(x, weight);
        let weight: Vec<R> = host.values(weight.operand());
        let bias: Option<Vec<R>> = bias.map(|b| host.values(b.operand()));
        let values = host.lend([x.operand()], [], |[x], []| {
            over_samples(s, s.of_output(), |sample, out: &mut [R], buffers: &mut [Vec<R>; 2]| {
                let [loaded, unfolded] = buffers;
                let x = sample_of(&x, sample, s.groups * s.of_input(), loaded);
                for (group, out) in out.chunks_exact_mut(s.of_output()).enumerate() {
                    let columns = s.columns(&x[group * s.of_input()..][..s.of_input()], unfolded);
                    let weight = &weight[group * s.channels[1] * s.depth()..];
                    let [left, right] = [Factor::rows(weight, s.channels[1], s.depth()), Factor::rows(columns, s.depth(), s.places())];
                    multiply(out, false, left, right, s.samples == 1);
                }
                if let Some(bias) = &bias {
                    for (plane, &b) in out.chunks_exact_mut(s.places()).zip(bias) {
                        plane.iter_mut().for_each(|y| *y += b);
                    }
                }
            })
        });
        host.store(out, &values);
    }

    fn grad_input<R: Field>(&self, host: &Host, grad: &Tensor, weight: &Tensor, to: &Tensor) {
        let s = self.sides(to, weight);
        let weight: Vec<R> = host.values(weight.operand());
        let values = host.lend([grad.operand()], [], |[grad], []| {
            over_samples(s, s.of_input(), |sample, out: &mut [R], buffers: &mut [Vec<R>; 2]| {
                let [loaded, columns] = buffers;
                let grad = sample_of(&grad, sample, s.groups * s.of_output(), loaded);
                for (group, out) in out.chunks_exact_mut(s.of_input()).enumerate() {
                    let weight = Factor::rows(&weight[group * s.channels[1] * s.depth()..], s.channels[1], s.depth());
                    let grad = Factor::rows(&grad[group * s.of_output()..], s.channels[1], s.places());
                    if s.is_plain() {
                        multiply(out, false, weight.transposed(), grad, s.samples == 1);
                        continue;
                    }
                    columns.resize(s.depth() * s.places(), R::ZERO);
                    multiply(columns, false, weight.transposed(), grad, s.samples == 1);
                    s.fold(columns, out);
                }
            })
        });
        host.store(to.operand(), &values);
    }

    fn grad_weight<R: Field>(&self, host: &Host, x: &Tensor, grad: &Tensor, to: &Tensor) {
        let s = self.sides(x, to);
        let of_group = s.channels[1] * s.depth();
        let share = s.samples.div_ceil(PARTS).max(1);
        let parts: Vec<Vec<R>> = host.lend([x.operand(), grad.operand()], [], |[x, grad], []| {
            let part = |first: usize| {
                let mut sum = vec![R::ZERO; s.groups * of_group];
                let [mut x_loaded, mut grad_loaded, mut unfolded] = [const { Vec::new() }; 3];
                for sample in first..s.samples.min(first + share) {
                    let x = sample_of(&x, sample, s.groups * s.of_input(), &mut x_loaded);
                    let grad = sample_of(&grad, sample, s.groups * s.of_output(), &mut grad_loaded);
                    for (group, sum) in sum.chunks_exact_mut(of_group).enumerate() {
                        let columns = s.columns(&x[group * s.of_input()..][..s.of_input()], &mut unfolded);
                        let grad = Factor::rows(&grad[group * s.of_output()..], s.channels[1], s.places());
                        multiply(sum, true, grad, Factor::rows(columns, s.depth(), s.places()).transposed(), s.samples == 1);
                    }
                }
                sum
            };
            (0..s.samples).step_by(share).collect::<Vec<_>>().into_par_iter().map(part).collect()
        });
        let mut sum = vec![R::ZERO; s.groups * of_group];
        for part in parts {
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        host.store(to.operand(), &sum);
    }
}

/// A tensor of `groups` times `of_group` elements a sample, each sample's computed on its own.
fn over_samples<R: Field>(s: Sides, of_group: usize, compute: impl Fn(usize, &mut [R], &mut [Vec<R>; 2]) + Sync) -> Vec<R> {
    let of_sample = s.groups * of_group;
    let mut values = vec![R::ZERO; s.samples * of_sample];
    let buffers = || [const { Vec::new() }; 2];
    values.par_chunks_exact_mut(of_sample).enumerate().for_each_init(buffers, |buffers, (sample, out)| compute(sample, out, buffers));
    values
}

/// The elements of one sample.
fn sample_of<'a, R: Field>(view: &'a View<'_>, sample: usize, elements: usize, buffer: &'a mut Vec<R>) -> &'a [R] {
    view.slice(sample * elements, elements, buffer)
}
