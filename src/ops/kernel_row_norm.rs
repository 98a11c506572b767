//! What the kernels of row-wise normalisations share: statistics of rows, and the gradients of their parameters.

use super::kernel::Backward;
use crate::device::cuda::{Arg, Cuda, Grid, Kernel, Source, View};
use crate::exec::{Combine, Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::tensor::Tensor;

/// One figure a row of `x`, in the accumulator's type.
pub(super) fn row_statistics(x: &TensorMeta) -> TensorMeta {
    let shape = x.shape.with_last(1).expect("no more elements than before");
    TensorMeta::contiguous(shape, x.dtype.accumulator())
}

/// What the gradients of the parameters are summed from.
pub(super) struct Rows<'a> {
    /// The incoming gradient, contiguous.
    pub(super) grad: &'a Tensor,
    /// The input.
    pub(super) x: &'a Tensor,
    /// The mean of each row, where it is taken off.
    pub(super) mean: Option<&'a Tensor>,
    /// The reciprocal deviation of each row.
    pub(super) rstd: &'a Tensor,
}

impl Rows<'_> {
    /// Sums columns into the gradients of weight and bias, `tall` sums each.
    fn sum(&self, cuda: &Cuda, tall: u32, gradients: &[Option<&Tensor>]) {
        let address = |t: Option<&Tensor>| t.map_or(Arg::from(0u64), |t| t.operand().into());
        let gradient = |i: usize| address(gradients.get(i).copied().flatten());
        let (rows, columns) = (self.grad.shape().rows(), self.grad.shape().last());
        let x = View::of(self.x.operand());
        let args = [
            rows.into(),
            columns.into(),
            gradient(0),
            gradient(1),
            self.grad.operand().into(),
            (&x).into(),
            address(self.mean),
            self.rstd.operand().into(),
        ];
        let kernel = Kernel { source: &SOURCE, entry: "norm_parameters", types: &[self.grad.dtype()] };
        // Where no blocks share the rows, narrow ones fill the GPU: as many columns as a sector of memory holds.
        let width = if tall > 1 { 32 } else { 8 };
        cuda.launch(kernel, Grid::columns_of(columns, width, tall), &args);
    }
}

static SOURCE: Source = Source { name: "row_norm", text: include_str!("kernel_row_norm.cu") };

/// Room for the gradients of all inputs.
pub(super) fn allocate_gradients(exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
    let new = |i: usize| exec.empty(if i == 0 { at.input() } else { at.inputs[i].clone() });
    at.needs.iter().enumerate().map(|(i, &needed)| if needed { new(i).map(Some) } else { Ok(None) }).collect()
}

/// Fills the gradients of the parameters, each as wide as a row: reduced over rows.
///
/// Where there are many rows and too few columns to fill the GPU with one block a column, PyTorch's kernel
/// (`LayerNormBackwardKernelImplInternal`) sums parts of the rows into partial gradients first, and the partials with ordinary sums that
/// replace the gradients.
pub(super) fn sum_parameters(exec: &Exec, at: &Backward<'_>, rows_of: &Rows<'_>, gradients: &mut [Option<Tensor>]) -> Result<()> {
    let (rows, columns) = (at.inputs[0].shape.rows(), at.inputs[0].shape.last());
    if rows <= 64 * 1024 || columns / 32 >= u64::from(exec.gpu().multiprocessors) / 2 {
        let to: Vec<Option<&Tensor>> = gradients.iter().map(Option::as_ref).collect();
        exec.on_cuda(|gpu| rows_of.sum(gpu, 1, &to));
        return Ok(());
    }
    const MOST_BLOCKS: u64 = 32 * 1024;
    let wide = columns.div_ceil(32);
    let tall = rows.div_ceil(32);
    let tall = if wide * tall > MOST_BLOCKS { (MOST_BLOCKS / wide).max(1) } else { tall };
    let shape = Shape::new([tall, columns]).expect("no more elements than the input has");
    let mut partials = Vec::with_capacity(gradients.len());
    for gradient in gradients.iter().flatten() {
        partials.push(exec.empty(TensorMeta::contiguous(shape.clone(), gradient.dtype()))?);
    }
    exec.on_cuda(|gpu| {
        let mut partials = partials.iter();
        let to: Vec<Option<&Tensor>> = gradients.iter().map(|g| g.as_ref().and_then(|_| partials.next())).collect();
        rows_of.sum(gpu, tall as u32, &to);
    });
    for (gradient, partial) in gradients.iter_mut().flatten().zip(&partials) {
        let sum = exec.reduce(Combine::Sum, partial, &[true, false])?;
        *gradient = sum.alias(gradient.shared_meta());
    }
    while partials.pop().is_some() {}
    Ok(())
}
