//! Sums, products and constants, element by element. Operands are of one type; inputs may be broadcast to the output's shape.

use crate::device::Operand;
use crate::device::cuda::{Arg, Cuda, Source};

static SOURCE: Source = Source { name: "elementwise", text: include_str!("elementwise.cu") };

/// Every element of `out` becomes `value`.
pub(in crate::exec) fn fill(cuda: &Cuda, value: f64, out: Operand<'_>) {
    cuda.map(&SOURCE, "fill", out, [], &[Arg::from(value)]);
}

/// `out = left + right`.
pub(in crate::exec) fn add(cuda: &Cuda, left: Operand<'_>, right: Operand<'_>, out: Operand<'_>) {
    cuda.map(&SOURCE, "add", out, [left, right], &[]);
}

/// `out = left * right`.
pub(crate) fn mul(cuda: &Cuda, left: Operand<'_>, right: Operand<'_>, out: Operand<'_>) {
    cuda.map(&SOURCE, "mul", out, [left, right], &[]);
}

/// `out = x * factor`.
pub(crate) fn scale(cuda: &Cuda, x: Operand<'_>, factor: f64, out: Operand<'_>) {
    cuda.map(&SOURCE, "scale", out, [x], &[Arg::from(factor)]);
}

/// `out = x + value`.
pub(crate) fn add_scalar(cuda: &Cuda, x: Operand<'_>, value: f64, out: Operand<'_>) {
    cuda.map(&SOURCE, "add_scalar", out, [x], &[Arg::from(value)]);
}
