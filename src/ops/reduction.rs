//! Scratch of PyTorch's reductions on CUDA (`sum`, `mean`, bias gradients): which of them are split over thread blocks, and how
//! much memory the parts meet in. Shapes and strides only; it never looks at values.
//!
//! The layout rules are those of `TensorIterator` (reordering, coalescing, splitting into 32-bit pieces), the launch rules those of
//! `ATen/native/cuda/Reduce.cuh`. Invariant: buffers are asked for after the output and given back before the operator returns.

use super::recipe::Recipe;
use super::rule::Slot;
use crate::gpu::Gpu;
use crate::meta::{DType, TensorMeta};

/// Buffer and semaphores of one kernel launch, in bytes; nothing where each output is finished within one thread block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scratch {
    /// Partial results.
    buffer: u64,
    /// One counter a group of outputs.
    semaphores: u64,
}

/// A dimension of the iteration: its size and the byte strides of output and input. A reduced dimension has output stride 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dim {
    size: u64,
    out: u64,
    input: u64,
}

impl Dim {
    const fn is_reduced(&self) -> bool {
        self.out == 0 && self.size > 1
    }
}

/// A sum, mean or variance over some dimensions of a tensor.
#[derive(Debug, Clone)]
pub struct Reduction {
    /// Innermost first.
    dims: Vec<Dim>,
    input: DType,
    output: DType,
    /// Bytes of what a thread collects in.
    accumulator: u64,
    /// Neighbours along the reduction that a thread loads at once.
    vector: u64,
}

impl Reduction {
    /// The reduction of `input` over the dimensions marked in `reduced`, into a contiguous output of type `output`.
    #[must_use]
    pub fn new(input: &TensorMeta, reduced: &[bool], output: DType) -> Self {
        let sizes = input.shape.dims();
        let mut out_stride = output.bytes();
        let mut dims: Vec<Dim> = Vec::with_capacity(sizes.len());
        for d in (0..sizes.len()).rev() {
            let out = if reduced[d] { 0 } else { out_stride };
            if !reduced[d] {
                out_stride *= sizes[d];
            }
            dims.push(Dim { size: sizes[d], out, input: input.strides[d] * input.dtype.bytes() });
        }
        reorder(&mut dims);
        Self { dims: coalesce(&dims), input: input.dtype, output, accumulator: input.dtype.accumulator().bytes(), vector: 4 }
    }

    /// `var_mean`: a thread collects a mean, a sum of squares and two counts (`WelfordData`), and unrolls less.
    #[must_use]
    pub fn var_mean(input: &TensorMeta, reduced: &[bool]) -> Self {
        let figure = input.dtype.accumulator();
        Self { accumulator: 4 * figure.bytes(), vector: 2, ..Self::new(input, reduced, figure) }
    }

    /// The reduction of all elements.
    #[must_use]
    pub fn all(input: &TensorMeta, output: DType) -> Self {
        Self::new(input, &vec![true; input.shape.rank()], output)
    }

    /// Output elements.
    #[must_use]
    pub fn outputs(&self) -> u64 {
        self.dims.iter().filter(|d| !d.is_reduced()).map(|d| d.size).product()
    }

    /// Appends output and scratch to a recipe, in PyTorch's order, and returns the output.
    pub fn run(&self, recipe: &mut Recipe, gpu: &Gpu) -> Slot {
        let out = recipe.alloc(self.outputs() * self.output.bytes());
        self.scratch_into(recipe, gpu);
        out
    }

    /// Appends the scratch alone, for an output that exists already.
    pub fn scratch_into(&self, recipe: &mut Recipe, gpu: &Gpu) {
        // Halves cannot collect the sums of several pieces in their own type.
        let accumulation = (self.output.is_half() && self.input == self.output && !fits_32_bits(&self.dims)).then(|| {
            let extent = self.dims.iter().map(|d| d.size * d.out).fold(self.output.bytes(), u64::max);
            recipe.alloc(extent / self.output.bytes() * self.accumulator)
        });
        let mut pieces = vec![self.dims.clone()];
        while let Some(mut piece) = pieces.pop() {
            if !fits_32_bits(&piece) {
                let first = split(&mut piece);
                pieces.push(piece);
                pieces.push(first);
                continue;
            }
            if let Some(s) = self.launch(&piece, gpu) {
                let (buffer, semaphores) = (recipe.alloc(s.buffer), recipe.alloc(s.semaphores));
                recipe.free(semaphores);
                recipe.free(buffer);
            }
        }
        if let Some(slot) = accumulation {
            recipe.free(slot);
        }
    }

    /// `setReduceConfig`: how the work is spread over threads, warps and thread blocks.
    fn launch(&self, dims: &[Dim], gpu: &Gpu) -> Option<Scratch> {
        const WARP: u64 = 32;
        const VALUES: std::ops::RangeInclusive<u64> = 16..=256;
        let (fewest, most) = VALUES.into_inner();
        let element = self.input.bytes();
        let total: u64 = dims.iter().map(|d| d.size).product();
        let outputs: u64 = dims.iter().filter(|d| !d.is_reduced()).map(|d| d.size).product();
        let inputs = total / outputs;
        let reduced = dims.iter().filter(|d| d.is_reduced()).count();

        let along_fastest = dims.is_empty() || reduced == dims.len() || dims[0].input < dims[reduced].input;
        let (mut across, down, stride) = match (dims.is_empty(), along_fastest) {
            (true, _) => (1, 1, element),
            (false, true) => (inputs, outputs, dims[0].input),
            (false, false) => (outputs, inputs, dims[reduced].input),
        };
        let mut output_vector = 1;
        if stride == element {
            if along_fastest && across >= 128 && reduced == 1 {
                across /= self.vector;
            } else if !along_fastest {
                output_vector = output_vector_size(dims, reduced, element);
                across /= output_vector;
            }
        }
        let threads_most = 512 / output_vector;
        let clamp = |n: u64| if n < threads_most { last_pow2(n) } else { threads_most };
        let (across, down) = (clamp(across), clamp(down));
        let height = down.min(threads_most / across.min(WARP));
        let width = across.min(threads_most / height);

        let (mut step_in, mut step_out) = (1, 1);
        if along_fastest {
            step_in *= width;
        } else {
            step_out *= width;
        }
        let across_warps = inputs.div_ceil(step_in) >= (height * 16).min(most);
        if across_warps {
            step_in *= height;
        } else {
            step_out *= height;
        }
        let target = u64::from(gpu.multiprocessors) * (u64::from(gpu.threads_per_multiprocessor) / (width * height));
        let grid = (outputs / output_vector).div_ceil(step_out);
        let values = inputs.div_ceil(step_in);
        if !across_warps || values < most || grid > target {
            return None;
        }
        let blocks = target.div_ceil(grid).min(values.div_ceil(fewest)).max(values.div_ceil(most));
        if blocks <= 1 {
            return None;
        }
        let spread = if along_fastest { 1 } else { width * output_vector };
        Some(Scratch { buffer: self.accumulator * outputs * blocks * spread, semaphores: 4 * grid })
    }
}

fn last_pow2(n: u64) -> u64 {
    if n == 0 { 1 } else { 1 << n.ilog2() }
}

/// Sorts dimensions by stride, reduced ones first: `TensorIterator`'s insertion sort, which leaves ambiguous pairs as they are.
fn reorder(dims: &mut [Dim]) {
    if lie_in_order(dims) {
        return;
    }
    for i in 1..dims.len() {
        let mut at = i;
        for before in (0..i).rev() {
            match order(dims[before], dims[at]) {
                std::cmp::Ordering::Greater => {
                    dims.swap(before, at);
                    at = before;
                }
                std::cmp::Ordering::Less => break,
                std::cmp::Ordering::Equal => {}
            }
        }
    }
}

/// Whether no two dimensions are the wrong way round, told by neighbours alone: all reduced or none, and strides that grow outwards, sizes
/// too where strides are equal. A contiguous tensor's are so, and of a thousand dimensions not every pair is to be looked at.
fn lie_in_order(dims: &[Dim]) -> bool {
    let grows = |a: &Dim, b: &Dim, stride: fn(&Dim) -> u64| stride(a) < stride(b) || (stride(a) == stride(b) && a.size <= b.size);
    let outputs_grow = dims.iter().all(|d| d.out == 0) || dims.windows(2).all(|w| w[0].out != 0 && grows(&w[0], &w[1], |d| d.out));
    outputs_grow && dims.windows(2).all(|w| w[0].input != 0 && grows(&w[0], &w[1], |d| d.input))
}

fn order(a: Dim, b: Dim) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    if (a.out == 0) != (b.out == 0) {
        return if b.out == 0 { Greater } else { Less };
    }
    for (x, y) in [(a.out, b.out), (a.input, b.input)] {
        if x == 0 || y == 0 {
            continue;
        }
        match x.cmp(&y) {
            Equal if a.size > b.size => return Greater,
            Equal => {}
            different => return different,
        }
    }
    Equal
}

/// Merges neighbours that are walked as one, and drops dimensions of size 1.
fn coalesce(dims: &[Dim]) -> Vec<Dim> {
    let mut merged: Vec<Dim> = Vec::with_capacity(dims.len());
    for &d in dims {
        match merged.last_mut() {
            Some(last) if last.size == 1 => *last = d,
            Some(_) if d.size == 1 => {}
            Some(last) if last.size * last.out == d.out && last.size * last.input == d.input => last.size *= d.size,
            _ => merged.push(d),
        }
    }
    merged
}

fn fits_32_bits(dims: &[Dim]) -> bool {
    let largest = u64::from(i32::MAX.unsigned_abs());
    let last = |stride: fn(&Dim) -> u64| 1 + dims.iter().map(|d| (d.size - 1) * stride(d)).sum::<u64>();
    dims.iter().map(|d| d.size).product::<u64>() <= largest && last(|d| d.out) <= largest && last(|d| d.input) <= largest
}

/// Halves the dimension of the largest extent that can be halved; returns the first half and leaves the second. (PyTorch asserts that
/// it can: where an expanded dimension alone is too long, it stops with an internal error.)
fn split(dims: &mut [Dim]) -> Vec<Dim> {
    let extent = |d: &Dim| (d.size - 1) * d.out.max(d.input);
    // The outermost of equals.
    let at = (0..dims.len())
        .rev()
        .filter(|&i| dims[i].size > 1)
        .reduce(|best, i| if extent(&dims[i]) > extent(&dims[best]) { i } else { best })
        .expect("a piece too large for 32 bits has a dimension");
    let mut first = dims.to_vec();
    first[at].size /= 2;
    dims[at].size -= first[at].size;
    first
}

/// How many outputs one thread loads at once: the largest of 4, 2, 1 that divides the row and every other stride.
fn output_vector_size(dims: &[Dim], reduced: usize, element: u64) -> u64 {
    let divides = |v: &u64| {
        dims.iter().enumerate().all(|(i, d)| if i == reduced { d.size.is_multiple_of(*v) } else { (d.input / element).is_multiple_of(*v) })
    };
    [4, 2].into_iter().find(divides).unwrap_or(1)
}
