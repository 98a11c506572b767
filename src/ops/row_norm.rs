//! What layer_norm and rms_norm share: statistics a row, and gradients of the parameters that are summed in two passes where
//! there are very many short rows. Inputs: x, weight, and perhaps a bias.

use super::recipe::Recipe;
use super::reduction::Reduction;
use super::rule::{Backward, Forward, Gradient, Output, Saved, Slot};
use crate::gpu::Gpu;
use crate::meta::{Shape, TensorMeta};

/// More rows than this are summed in two passes (`LayerNormBackwardKernelImplInternal` of `layer_norm_kernel.cu`), unless blocks of
/// [`WARP`] columns each occupy half of the multiprocessors.
const MANY_ROWS: u64 = 64 * 1024;
/// Columns, and rows, of a block of the first pass.
const WARP: u64 = 32;
/// The most blocks of the first pass.
const MOST_BLOCKS: u64 = 32 * 1024;

/// What forward keeps a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistics {
    /// layer_norm: mean, and the reciprocal of the standard deviation.
    MeanAndRstd,
    /// rms_norm: the reciprocal of the root mean square.
    Rstd,
}

/// Output and statistics.
#[must_use]
pub fn forward(inputs: &[TensorMeta], needs: &[bool], statistics: Statistics) -> Forward {
    let x = &inputs[0];
    let needed = needs.contains(&true);
    let mut r = Recipe::new();
    (0..inputs.len()).for_each(|i| r.keep(Saved::Input(i), needed));
    // The kernels walk rows.
    let copy = contiguous_copy(&mut r, x);
    let out = r.tensor(&x.like());
    let a_row = x.shape.rows() * x.dtype.accumulator().bytes();
    let slots = match statistics {
        Statistics::MeanAndRstd => vec![r.alloc(a_row), r.alloc(a_row)],
        Statistics::Rstd => vec![r.alloc(a_row)],
    };
    if let Some(copy) = copy {
        r.free(copy);
    }
    slots.into_iter().for_each(|s| r.keep_or_free(s, needed));
    r.forward(vec![Output::New(out, x.like())])
}

/// Gradients of x and the parameters.
#[must_use]
pub fn backward(gpu: &Gpu, inputs: &[TensorMeta], incoming: Option<&TensorMeta>, needs: &[bool]) -> Backward {
    let mut r = Recipe::new();
    let Some(incoming) = incoming else { return r.backward(vec![Gradient::None; inputs.len()]) };
    let copy_of_x = contiguous_copy(&mut r, &inputs[0]);
    let mut slots: Vec<Option<usize>> = inputs.iter().zip(needs).map(|(input, &needed)| needed.then(|| r.tensor(&input.like()))).collect();
    // Also a gradient spread with stride 0 is written out.
    let copy = contiguous_copy(&mut r, incoming);
    let x = &inputs[0];
    let (rows, columns) = (x.shape.rows(), x.shape.last());
    let parameters: Vec<usize> = (1..inputs.len()).filter(|&i| needs[i]).collect();
    if rows > MANY_ROWS && columns / WARP < u64::from(gpu.multiprocessors / 2) && !parameters.is_empty() {
        let partial = partial_sums(rows, columns, &inputs[parameters[0]]);
        let partials: Vec<usize> = parameters.iter().map(|_| r.tensor(&partial)).collect();
        for &i in &parameters {
            // The sum is a tensor of its own, which takes the place of the one made above.
            let sum = Reduction::new(&partial, &[true, false], partial.dtype).run(&mut r, gpu);
            if let Some(old) = slots[i].replace(sum) {
                r.free(old);
            }
        }
        partials.into_iter().rev().for_each(|p| r.free(p));
    }
    for copy in copy.into_iter().chain(copy_of_x) {
        r.free(copy);
    }
    let gradients = slots.iter().zip(inputs).map(|(slot, input)| slot.map_or(Gradient::None, |s| Gradient::New(s, input.like()))).collect();
    r.backward(gradients)
}

/// A contiguous copy of what is not contiguous.
fn contiguous_copy(r: &mut Recipe, t: &TensorMeta) -> Option<Slot> {
    (!t.is_contiguous()).then(|| r.tensor(&t.like()))
}

/// One row of sums for each thread block that works down the rows, fewer where the grid grows too large.
fn partial_sums(rows: u64, columns: u64, parameter: &TensorMeta) -> TensorMeta {
    let (across, mut down) = (columns.div_ceil(WARP), rows.div_ceil(WARP));
    if across * down > MOST_BLOCKS {
        down = (MOST_BLOCKS / across).max(1);
    }
    let shape = Shape::new([down, columns]).expect("no larger than the input");
    TensorMeta::contiguous(shape, parameter.dtype)
}
