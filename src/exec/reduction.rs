//! What a reduction needs besides its output: when many threads share one output across blocks, a buffer of partial results and a
//! row of semaphores. This is the geometry of PyTorch's `Reduce.cuh` (`setReduceConfig`) over the loop that `TensorIterator` makes
//! of the input: dimensions reordered, neighbours merged, and split until 32-bit offsets reach everything.

use super::cuda::Room;
use super::{Exec, Result};
use crate::gpu::Gpu;
use crate::meta::{DType, TensorMeta};
use crate::tensor::Storage;

/// The scratch of one pass, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scratch {
    partials: u64,
    semaphores: u64,
}

impl Exec {
    /// Takes and gives back the scratch of reducing `input` over the dimensions that `reduced` marks, while `work` runs.
    /// `output` is the type of the result. The work is told where partial results may lie.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn with_reduction_scratch(
        &self,
        input: &TensorMeta,
        reduced: &[bool],
        output: DType,
        work: impl FnOnce(Option<Room>),
    ) -> Result<()> {
        let accumulator = input.dtype.accumulator().bytes();
        let walk = Loop::over(input, reduced);
        if walk.fits_32_bits() {
            let scratch = self.pass(&walk, accumulator)?;
            work(scratch.room());
            return Ok(());
        }
        // A result narrower than the accumulator cannot hold what the passes add up.
        let sums = if output.bytes() < accumulator { walk.outputs() * accumulator } else { 0 };
        let _sums = self.scratch(sums)?;
        for part in walk.split() {
            self.pass(&part, accumulator)?;
        }
        work(None);
        Ok(())
    }

    /// Takes and gives back the scratch of a variance over the dimensions that `reduced` marks, and of the mean with it: each thread
    /// holds both, a count, and the count as it is calculated with.
    ///
    /// # Errors
    /// Out of memory.
    pub fn variance_scratch(&self, input: &TensorMeta, reduced: &[bool]) -> Result<()> {
        let walk = Loop { vector: 2, ..Loop::over(input, reduced) };
        for part in if walk.fits_32_bits() { vec![walk] } else { walk.split() } {
            self.pass(&part, 4 * input.dtype.accumulator().bytes())?;
        }
        Ok(())
    }

    fn pass(&self, walk: &Loop, accumulator: u64) -> Result<PassScratch> {
        let Some(Scratch { partials, semaphores }) = walk.scratch(self.gpu(), accumulator) else {
            return Ok(PassScratch { _semaphores: None, partials: None });
        };
        let room = self.scratch(partials)?;
        let semaphores = self.scratch(semaphores)?;
        Ok(PassScratch { _semaphores: Some(semaphores), partials: Some((room, partials)) })
    }
}

/// Freed in the order of the fields: the last taken first.
struct PassScratch {
    _semaphores: Option<Storage>,
    /// With its size.
    partials: Option<(Storage, u64)>,
}

impl PassScratch {
    fn room(&self) -> Option<Room> {
        self.partials.as_ref().map(|(storage, bytes)| Room { address: storage.address(), bytes: *bytes })
    }
}

/// One dimension of the loop. Steps are in elements; a reduced dimension has `output_step` 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dim {
    size: u64,
    output_step: u64,
    input_step: u64,
}

/// The loop over the input, fastest dimension first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Loop {
    dims: Vec<Dim>,
    element: u64,
    /// Where in the input it starts, in elements.
    offset: u64,
    /// How many neighbours a thread loads at once where it walks along the reduction.
    vector: u64,
}

impl Loop {
    fn over(input: &TensorMeta, reduced: &[bool]) -> Self {
        let mut output_step = 1;
        let mut dims: Vec<Dim> = input
            .shape
            .dims()
            .iter()
            .zip(&input.strides)
            .zip(reduced)
            .rev()
            .map(|((&size, &input_step), &reduced)| {
                let step = if reduced { 0 } else { output_step };
                if !reduced {
                    output_step *= size;
                }
                Dim { size, output_step: step, input_step: if size == 1 { 0 } else { input_step } }
            })
            .collect();
        sort(&mut dims);
        merge(&mut dims);
        Self { dims, element: input.dtype.bytes(), offset: 0, vector: 4 }
    }

    fn reduced_dims(&self) -> usize {
        self.dims.iter().filter(|d| d.output_step == 0).count()
    }

    fn outputs(&self) -> u64 {
        self.dims.iter().filter(|d| d.output_step != 0).map(|d| d.size).product()
    }

    fn numel(&self) -> u64 {
        self.dims.iter().map(|d| d.size).product()
    }

    fn fits_32_bits(&self) -> bool {
        const MOST: u64 = i32::MAX as u64;
        let reach = |step: fn(&Dim) -> u64| 1 + self.dims.iter().map(|d| (d.size - 1) * step(d) * self.element).sum::<u64>();
        self.numel() <= MOST && reach(|d| d.output_step) <= MOST && reach(|d| d.input_step) <= MOST
    }

    /// Halves along the dimension of the longest reach until every part fits 32 bits, in order.
    fn split(self) -> Vec<Self> {
        let (mut parts, mut pending) = (Vec::new(), vec![self]);
        while let Some(mut rest) = pending.pop() {
            if rest.fits_32_bits() {
                parts.push(rest);
                continue;
            }
            let reach = |d: &Dim| (d.size - 1) * d.input_step.max(d.output_step);
            // The outermost of equals.
            let longer = (0..rest.dims.len()).filter(|&i| rest.dims[i].size > 1);
            let longest = longer.max_by_key(|&i| reach(&rest.dims[i])).expect("a loop too long for 32 bits has dimensions");
            let mut first = rest.clone();
            let half = rest.dims[longest].size / 2;
            first.dims[longest].size = half;
            rest.dims[longest].size -= half;
            rest.offset += half * rest.dims[longest].input_step;
            pending.extend([rest, first]);
        }
        parts
    }

    fn scratch(&self, gpu: &Gpu, accumulator: u64) -> Option<Scratch> {
        const WARP: u64 = 32;
        const MOST_THREADS: u64 = 512;
        const VALUES_A_THREAD: (u64, u64) = (16, 256);
        let reduced = self.reduced_dims();
        let outputs = self.outputs();
        let inputs = self.numel() / outputs;
        // Whether a warp walks along the reduction or along the outputs.
        let along_reduction = reduced == self.dims.len() || (reduced > 0 && self.dims[0].input_step < self.dims[reduced].input_step);
        let (mut dim0, dim1) = if along_reduction { (inputs, outputs) } else { (outputs, inputs) };
        let fastest = if along_reduction { self.dims.first() } else { self.dims.get(reduced) };
        let mut output_vector = 1;
        if fastest.is_none_or(|d| d.input_step == 1) {
            if along_reduction && dim0 >= 128 && reduced == 1 {
                dim0 /= self.vector;
            } else if !along_reduction {
                output_vector = self.output_vector(reduced);
                dim0 /= output_vector;
            }
        }
        let most = MOST_THREADS / output_vector;
        let fit = |n: u64| if n < most { largest_power_of_two(n) } else { most };
        let (fit0, fit1) = (fit(dim0), fit(dim1));
        let width = fit0.min(WARP);
        let height = fit1.min(most / width);
        let width = fit0.min(most / height);
        let (mut share_in, mut share_out) = if along_reduction { (width, 1) } else { (1, width) };
        let values_a_thread = |share_in: u64| inputs.div_ceil(share_in);
        let across_rows = values_a_thread(share_in) >= (height * VALUES_A_THREAD.0).min(VALUES_A_THREAD.1);
        if across_rows {
            share_in *= height;
        } else {
            share_out *= height;
        }
        let blocks = u64::from(gpu.multiprocessors) * (u64::from(gpu.threads_per_multiprocessor) / (width * height));
        let grid = (outputs / output_vector).div_ceil(share_out);
        let values = values_a_thread(share_in);
        if !across_rows || values < VALUES_A_THREAD.1 || grid > blocks {
            return None;
        }
        let sharing = blocks.div_ceil(grid).min(values.div_ceil(VALUES_A_THREAD.0)).max(values.div_ceil(VALUES_A_THREAD.1));
        if sharing <= 1 {
            return None;
        }
        let lanes = if along_reduction { 1 } else { width * output_vector };
        Some(Scratch { partials: accumulator * outputs * sharing * lanes, semaphores: 4 * grid })
    }

    /// How many neighbouring outputs a thread computes at once: at most 4, and every step must be a multiple.
    fn output_vector(&self, first_kept: usize) -> u64 {
        let mut width = 4;
        let steps = self.dims.iter().enumerate().filter(|&(i, _)| i != first_kept).map(|(_, d)| d.input_step);
        for n in [self.offset, self.dims[first_kept].size].into_iter().chain(steps) {
            while n % width != 0 {
                width /= 2;
            }
        }
        width
    }
}

/// `TensorIterator`'s order: reduced dimensions first, then by the output's step, then by the input's; broadcast steps decide nothing.
fn sort(dims: &mut [Dim]) {
    for i in 1..dims.len() {
        let mut moved = i;
        for other in (0..i).rev() {
            match order(&dims[other], &dims[moved]) {
                std::cmp::Ordering::Greater => {
                    dims.swap(other, moved);
                    moved = other;
                }
                std::cmp::Ordering::Less => break,
                std::cmp::Ordering::Equal => {}
            }
        }
    }
}

fn order(a: &Dim, b: &Dim) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    if (a.output_step == 0) != (b.output_step == 0) {
        return if b.output_step == 0 { Greater } else { Less };
    }
    for (a_step, b_step) in [(a.output_step, b.output_step), (a.input_step, b.input_step)] {
        if a_step == 0 || b_step == 0 {
            continue;
        }
        if a_step != b_step {
            return a_step.cmp(&b_step);
        }
        if a.size > b.size {
            return Greater;
        }
    }
    Equal
}

/// Joins each dimension to the one before it where both operands step evenly through the two.
fn merge(dims: &mut Vec<Dim>) {
    let Some((&first, rest)) = dims.split_first() else { return };
    let mut merged = vec![first];
    for &next in rest {
        let last = merged.last_mut().expect("it starts with one");
        let even = last.size * last.output_step == next.output_step && last.size * last.input_step == next.input_step;
        if last.size == 1 {
            *last = next;
        } else if next.size == 1 || even {
            last.size *= next.size;
        } else {
            merged.push(next);
        }
    }
    *dims = merged;
}

fn largest_power_of_two(n: u64) -> u64 {
    1 << n.max(1).ilog2()
}
