//! Sums, products and constants, element by element. Operands are of one type; inputs may be broadcast to the output's shape.

use crate::device::Operand;
use crate::device::cuda::{Arg, Cuda, Kernel, Source, View};

static SOURCE: Source = Source { name: "elementwise", text: include_str!("elementwise.cu") };
static BINARY: Source = Source { name: "binary", text: include_str!("binary.cu") };

/// Every element of `out` becomes `value`.
pub(in crate::exec) fn fill(cuda: &Cuda, value: f64, out: Operand<'_>) {
    if value == 0.0 && out.meta.is_dense() {
        cuda.fill(out.address, 0, out.meta.bytes());
        return;
    }
    cuda.map(&SOURCE, "fill", out, [], &[Arg::from(value)]);
}

/// `out = left + right`, of any types, broadcast to the shape of `out`.
pub(crate) fn add(cuda: &Cuda, left: Operand<'_>, right: Operand<'_>, out: Operand<'_>) {
    binary(cuda, "add", left, right, out);
}

/// `out = left * right`, of any types, broadcast to the shape of `out`.
pub(crate) fn mul(cuda: &Cuda, left: Operand<'_>, right: Operand<'_>, out: Operand<'_>) {
    binary(cuda, "mul", left, right, out);
}

fn binary(cuda: &Cuda, entry: &'static str, left: Operand<'_>, right: Operand<'_>, out: Operand<'_>) {
    let kernel = Kernel { source: &BINARY, entry, types: &[left.meta.dtype, right.meta.dtype, out.meta.dtype] };
    let views = [left, right].map(|t| View::of(t.spread(&out.meta.shape).operand()));
    let (n, to) = (out.meta.numel(), View::of(out));
    cuda.launch(kernel, cuda.full(n.div_ceil(4)), &[n.into(), (&to).into(), (&views[0]).into(), (&views[1]).into()]);
}

/// `out = x * factor`.
pub(crate) fn scale(cuda: &Cuda, x: Operand<'_>, factor: f64, out: Operand<'_>) {
    cuda.map(&SOURCE, "scale", out, [x], &[Arg::from(factor)]);
}

/// `out = x + value`.
pub(crate) fn add_scalar(cuda: &Cuda, x: Operand<'_>, value: f64, out: Operand<'_>) {
    cuda.map(&SOURCE, "add_scalar", out, [x], &[Arg::from(value)]);
}

/// `out = 1 / x`.
pub(crate) fn reciprocal(cuda: &Cuda, x: Operand<'_>, out: Operand<'_>) {
    cuda.map(&SOURCE, "reciprocal", out, [x], &[]);
}
