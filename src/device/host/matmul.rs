//! Matrix products, on faer's kernels. Half types are widened, multiplied and summed in f32, and rounded once.

use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::{Accum, MatMut, MatRef, Par};

use super::element::Real;
use super::lend::Host;
use super::view::{View, usize_of};
use crate::device::Operand;
use crate::meta::{DType, TensorMeta};

/// A type that matrices can be of.
pub trait Field: Real + ComplexField {}

impl Field for f32 {}
impl Field for f64 {}

/// A matrix in the program's own memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factor<'a, R> {
    elements: &'a [R],
    sides: (usize, usize),
    transposed: bool,
}

impl<'a, R> Factor<'a, R> {
    /// The first `rows` rows of `columns` elements.
    pub(crate) fn rows(elements: &'a [R], rows: usize, columns: usize) -> Self {
        Self { elements: &elements[..rows * columns], sides: (rows, columns), transposed: false }
    }

    /// The same elements, sides exchanged.
    pub(crate) fn transposed(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }
}

impl<'a, R: Field> Factor<'a, R> {
    fn matrix(self) -> MatRef<'a, R> {
        let matrix = MatRef::from_row_major_slice(self.elements, self.sides.0, self.sides.1);
        if self.transposed { matrix.transpose() } else { matrix }
    }
}

/// `out = left · right`, or `out += left · right`, rows of `out` one after another; on several threads if `shared` and worth it.
pub(crate) fn multiply<R: Field>(out: &mut [R], adds: bool, left: Factor<'_, R>, right: Factor<'_, R>, shared: bool) {
    let (left, right) = (left.matrix(), right.matrix());
    let work = left.nrows() * left.ncols() * right.ncols();
    let par = if shared && work >= GRAIN { Par::rayon(0) } else { Par::Seq };
    let accumulate = if adds { Accum::Add } else { Accum::Replace };
    matmul(MatMut::from_row_major_slice_mut(out, left.nrows(), right.ncols()), accumulate, left, right, R::ONE, par);
}

/// Multiplications below which one thread does all.
const GRAIN: usize = 1 << 18;

impl Host {
    /// `out = left · right` of two matrices of any strides, plus `bias` in every row.
    ///
    /// # Panics
    /// Where the sides do not go together or `out` is not contiguous.
    pub fn matmul(&self, left: Operand<'_>, right: Operand<'_>, bias: Option<Operand<'_>>, out: Operand<'_>) {
        if out.meta.dtype == DType::F64 {
            self.product::<f64>(left, right, bias, out);
        } else {
            self.product::<f32>(left, right, bias, out);
        }
    }

    fn product<R: Real + ComplexField>(&self, left: Operand<'_>, right: Operand<'_>, bias: Option<Operand<'_>>, out: Operand<'_>) {
        let ((m, k), (k_too, n)) = (sides(left.meta), sides(right.meta));
        assert_eq!(k, k_too, "the inner sides of a product are equal");
        let bias: Option<Vec<R>> = bias.map(|b| self.values(b));
        self.lend([left, right], [out], |[a, b], [mut out]| {
            assert_eq!(out.len(), m * n, "a product has the outer sides");
            let (mut a_buffer, mut b_buffer): (Vec<R>, Vec<R>) = (Vec::new(), Vec::new());
            let a = matrix(&a, left.meta, &mut a_buffer);
            let b = matrix(&b, right.meta, &mut b_buffer);
            let par = if m * n * k < GRAIN { Par::Seq } else { Par::rayon(0) };
            let multiply = |to: &mut [R]| {
                let accumulate = match &bias {
                    Some(bias) => {
                        to.chunks_exact_mut(n.max(1)).for_each(|row| row.copy_from_slice(bias));
                        Accum::Add
                    }
                    None => Accum::Replace,
                };
                matmul(MatMut::from_row_major_slice_mut(to, m, n), accumulate, a, b, R::ONE, par);
            };
            if let Some(to) = out.stored() {
                multiply(to);
            } else {
                let mut product = vec![R::ZERO; m * n];
                multiply(&mut product);
                out.store(0, &product);
            }
        });
    }
}

/// Rows and columns.
fn sides(meta: &TensorMeta) -> (usize, usize) {
    let &[rows, columns] = meta.shape.dims() else { panic!("a matrix has two sides, not {}", meta.shape) };
    (usize_of(rows), usize_of(columns))
}

/// The matrix where it lies if it needs no conversion and its rows or columns are dense, else a copy in `buffer`.
fn matrix<'b, R: Real + ComplexField>(view: &'b View<'_>, meta: &TensorMeta, buffer: &'b mut Vec<R>) -> MatRef<'b, R> {
    let (rows, columns) = sides(meta);
    if let Some(elements) = view.elements() {
        let (row_step, column_step) = (usize_of(meta.strides[0]), usize_of(meta.strides[1]));
        if column_step == 1 && row_step >= columns {
            return MatRef::from_row_major_slice_with_stride(elements, rows, columns, row_step);
        }
        if row_step == 1 && column_step >= rows {
            return MatRef::from_column_major_slice_with_stride(elements, rows, columns, column_step);
        }
    }
    MatRef::from_row_major_slice(view.slice(0, rows * columns, buffer), rows, columns)
}
