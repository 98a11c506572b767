//! What the kernels of row-wise normalisations share: statistics of rows, and gradients.

use super::kernel::Backward;
use crate::exec::{Combine, Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::tensor::Tensor;

/// One figure a row of `x`, in the accumulator's type.
pub(super) fn row_statistics(x: &TensorMeta) -> TensorMeta {
    let shape = x.shape.with_last(1).expect("no more elements than before");
    TensorMeta::contiguous(shape, x.dtype.accumulator())
}

/// The gradients of all inputs, and the incoming one as the kernel reads it: contiguous, a copy made after them where it was not.
///
/// Parameters' gradients are as wide as a row: reduced over rows. Where there are many rows and too few columns to fill the GPU with one
/// block a column, PyTorch's kernel (`LayerNormBackwardKernelImplInternal`) sums parts of the rows into partial gradients first, and the
/// partials with ordinary sums that replace the gradients.
pub(super) fn allocate_gradients(exec: &Exec, at: &Backward<'_>) -> Result<(Tensor, Vec<Option<Tensor>>)> {
    let mut gradients = Vec::with_capacity(at.needs.len());
    for (meta, &needed) in at.inputs.iter().zip(at.needs) {
        gradients.push(if needed { Some(exec.empty(meta.clone())?) } else { None });
    }
    let grad = exec.contiguous(at.grad())?;
    let (rows, columns) = (at.inputs[0].shape.rows(), at.inputs[0].shape.last());
    if rows <= 64 * 1024 || columns / 32 >= u64::from(exec.gpu().multiprocessors) / 2 {
        return Ok((grad, gradients));
    }
    const MOST_BLOCKS: u64 = 32 * 1024;
    let wide = columns.div_ceil(32);
    let tall = rows.div_ceil(32);
    let tall = if wide * tall > MOST_BLOCKS { (MOST_BLOCKS / wide).max(1) } else { tall };
    let shape = Shape::new([tall, columns]).expect("no more elements than the input has");
    let mut partials = Vec::with_capacity(gradients.len());
    for gradient in gradients[1..].iter().flatten() {
        partials.push(exec.empty(TensorMeta::contiguous(shape.clone(), gradient.dtype()))?);
    }
    for (gradient, partial) in gradients[1..].iter_mut().flatten().zip(&partials) {
        let sum = exec.reduce(Combine::Sum, partial, &[true, false])?;
        *gradient = sum.alias(gradient.shared_meta());
    }
    while partials.pop().is_some() {}
    Ok((grad, gradients))
}
