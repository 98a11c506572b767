//! Matrix products of operands.

use super::copy;
use crate::device::Operand;
use crate::device::cuda::{Batch, Cuda, Matrix, Pass, Product, Workspace};
use crate::meta::TensorMeta;

/// A thread's handle and its workspaces.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Libraries {
    pub(in crate::exec) pass: Pass,
    pub(in crate::exec) cublas: Workspace,
}

/// `out = a · b`.
pub(in crate::exec) fn product(cuda: &Cuda, by: Libraries, a: Operand<'_>, b: Operand<'_>, out: Operand<'_>) {
    if let Some(product) = describe(a, b, out) {
        cuda.gemm(by.pass, by.cublas, &product, 0.0);
    }
}

/// `out = a · b + bias`, the bias one element a column. With `epilogue` the product adds the bias itself, in cuBLAS's workspace, which is
/// there too and larger; without, or where cuBLASLt has no such product, the bias is there first and the product is added to it.
pub(in crate::exec) fn product_with_bias(
    cuda: &Cuda,
    by: Libraries,
    epilogue: bool,
    [a, b]: [Operand<'_>; 2],
    bias: Operand<'_>,
    out: Operand<'_>,
) {
    let Some(product) = describe(a, b, out) else { return };
    if epilogue && cuda.gemm_bias(by.cublas, &product, bias.address) {
        return;
    }
    copy(cuda, bias.spread(&out.meta.shape).operand(), out);
    cuda.gemm(by.pass, by.cublas, &product, 1.0);
}

/// `out[i] = a[i] · b[i]` for every batch entry.
pub(in crate::exec) fn products(cuda: &Cuda, by: Libraries, a: Operand<'_>, b: Operand<'_>, out: Operand<'_>) {
    let (&[n, m, k], &[_, _, columns]) = (a.meta.shape.dims(), b.meta.shape.dims()) else { unreachable!("batches of matrices") };
    if out.meta.numel() == 0 {
        return;
    }
    let matrix = |t: Operand<'_>| Matrix { address: t.address, row_stride: t.meta.strides[1], column_stride: t.meta.strides[2] };
    let product = Product { dtype: out.meta.dtype, m, n: columns, k, a: matrix(a), b: matrix(b), c: out.address };
    cuda.gemm_batch(by.pass, by.cublas, &product, Batch { entries: n, steps: [a.meta.strides[0], b.meta.strides[0], m * columns] });
}

/// `None` where there is nothing to compute.
fn describe(a: Operand<'_>, b: Operand<'_>, out: Operand<'_>) -> Option<Product> {
    let sides = |t: &TensorMeta| (t.shape.dims()[0], t.shape.dims()[1]);
    let ((m, k), (_, n)) = (sides(a.meta), sides(b.meta));
    let matrix = |t: Operand<'_>| Matrix { address: t.address, row_stride: t.meta.strides[0], column_stride: t.meta.strides[1] };
    (m > 0 && n > 0).then(|| Product { dtype: out.meta.dtype, m, n, k, a: matrix(a), b: matrix(b), c: out.address })
}
