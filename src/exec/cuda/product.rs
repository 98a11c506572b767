//! Matrix products of operands.

use super::copy;
use crate::device::Operand;
use crate::device::cuda::{Cuda, Matrix, Pass, Product, Workspace};
use crate::meta::TensorMeta;

/// `out = a · b`.
pub(in crate::exec) fn product(cuda: &Cuda, pass: Pass, workspace: Workspace, a: Operand<'_>, b: Operand<'_>, out: Operand<'_>) {
    if let Some(product) = describe(a, b, out) {
        cuda.gemm(pass, workspace, &product, 0.0);
    }
}

/// `out = a · b + bias`, the bias one element a column. `epilogue` is the workspace of a product that adds the bias itself; without, or where the
/// library has no such product, the bias is there first and the product is added to it.
pub(in crate::exec) fn product_with_bias(
    cuda: &Cuda,
    pass: Pass,
    (workspace, epilogue): (Workspace, Option<Workspace>),
    (a, b): (Operand<'_>, Operand<'_>),
    bias: Operand<'_>,
    out: Operand<'_>,
) {
    let Some(product) = describe(a, b, out) else { return };
    if epilogue.is_some_and(|epilogue| cuda.gemm_bias(pass, epilogue, &product, bias.address)) {
        return;
    }
    let spread = bias.meta.broadcast_to(&out.meta.shape);
    copy(cuda, bias.with(&spread), out);
    cuda.gemm(pass, workspace, &product, 1.0);
}

/// `None` where there is nothing to compute.
fn describe(a: Operand<'_>, b: Operand<'_>, out: Operand<'_>) -> Option<Product> {
    let sides = |t: &TensorMeta| (t.shape.dims()[0], t.shape.dims()[1]);
    let ((m, k), (_, n)) = (sides(a.meta), sides(b.meta));
    let matrix = |t: Operand<'_>| Matrix { address: t.address, row_stride: t.meta.strides[0], column_stride: t.meta.strides[1] };
    (m > 0 && n > 0).then(|| Product { dtype: out.meta.dtype, m, n, k, a: matrix(a), b: matrix(b), c: out.address })
}
