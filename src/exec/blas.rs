//! Matrix products as PyTorch asks cuBLAS for them: the output first, then a contiguous copy of every operand that cuBLAS cannot
//! read where it lies, then the handle's workspace; the copies die with the call.

use super::{Exec, Result, Workspace, cuda};
use crate::meta::{Shape, TensorMeta};
use crate::tensor::Tensor;

impl Exec {
    /// `a · b` of two matrices (`aten::mm`), contiguous.
    ///
    /// # Errors
    /// Out of memory.
    pub fn mm(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let out = self.empty(product_meta(a, b))?;
        let a = self.readable_matrix(a)?;
        let b = self.readable_matrix(b)?;
        self.workspace(Workspace::Cublas)?;
        self.on_host(|host| host.matmul(a.operand(), b.operand(), None, out.operand()));
        self.on_cuda(|gpu| cuda::product(gpu, self.library(), a.operand(), b.operand(), out.operand()));
        Ok(out)
    }

    /// `a · b + bias` (`aten::addmm`) with a bias for each column: one cuBLASLt call, except where a side is 1 wide.
    ///
    /// # Errors
    /// Out of memory.
    pub fn addmm(&self, bias: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let out = self.empty(product_meta(a, b))?;
        let a = self.readable_matrix(a)?;
        let b = self.readable_matrix(b)?;
        let epilogue = b.shape().dims().iter().all(|&d| d > 1);
        self.workspace(if epilogue { Workspace::CublasLt } else { Workspace::Cublas })?;
        self.on_host(|host| host.matmul(a.operand(), b.operand(), Some(bias.operand()), out.operand()));
        self.on_cuda(|gpu| {
            cuda::product_with_bias(gpu, self.library(), epilogue, [a.operand(), b.operand()], bias.operand(), out.operand())
        });
        Ok(out)
    }

    /// `a[i] · b[i]` for every batch entry (`aten::bmm`), contiguous.
    ///
    /// # Errors
    /// Out of memory.
    pub fn bmm(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let (n, rows, columns) = (a.shape().dims()[0], a.shape().dims()[1], b.shape().dims()[2]);
        let shape = Shape::new([n, rows, columns]).expect("a product's shape was inferred before");
        let out = self.empty(TensorMeta::contiguous(shape, a.dtype()))?;
        let a = self.readable_matrices(a)?;
        let b = self.readable_matrices(b)?;
        self.workspace(Workspace::Cublas)?;
        self.on_host(|host| {
            let entry = |t: &Tensor, i: u64| {
                let (meta, part) = (t.meta(), t.narrow(0, i, 1));
                let shape = Shape::new(&meta.shape.dims()[1..]).expect("no more elements than all");
                part.alias(TensorMeta { shape, dtype: meta.dtype, strides: meta.strides[1..].to_vec() })
            };
            for i in 0..n {
                host.matmul(entry(&a, i).operand(), entry(&b, i).operand(), None, entry(&out, i).operand());
            }
        });
        self.on_cuda(|gpu| cuda::products(gpu, self.library(), a.operand(), b.operand(), out.operand()));
        Ok(out)
    }

    /// A tensor as the matrix of its rows: a view where strides allow it, else a copy.
    ///
    /// # Errors
    /// Out of memory.
    pub fn matrix(&self, t: &Tensor) -> Result<Tensor> {
        if t.shape().rank() == 2 {
            return Ok(t.clone());
        }
        let shape = Shape::new([t.shape().rows(), t.shape().last()]).expect("as many elements as before");
        self.reshape(t, &shape)
    }

    /// The matrix itself where cuBLAS can read it, else a copy.
    fn readable_matrix(&self, m: &Tensor) -> Result<Tensor> {
        if is_readable(m.meta()) { Ok(m.clone()) } else { self.clone_contiguous(m) }
    }

    /// The same for a batch of matrices, which may lie any way apart.
    fn readable_matrices(&self, m: &Tensor) -> Result<Tensor> {
        let meta = m.meta();
        let shape = Shape::new(&meta.shape.dims()[1..]).expect("no more elements than all");
        let one = TensorMeta { shape, dtype: meta.dtype, strides: meta.strides[1..].to_vec() };
        if is_readable(&one) { Ok(m.clone()) } else { self.clone_contiguous(m) }
    }
}

/// cuBLAS reads a matrix whose rows or whose columns are dense and do not overlap (`prepare_matrix_for_cublas`).
fn is_readable(m: &TensorMeta) -> bool {
    let (rows, columns) = (m.shape.dims()[0], m.shape.dims()[1]);
    let (row_step, column_step) = (m.strides[0], m.strides[1]);
    m.is_dense() || (row_step == 1 && column_step >= rows.max(1)) || (column_step == 1 && row_step >= columns.max(1))
}

fn product_meta(a: &Tensor, b: &Tensor) -> TensorMeta {
    let shape = Shape::new([a.shape().dims()[0], b.shape().dims()[1]]).expect("a product's shape was inferred before");
    TensorMeta::contiguous(shape, a.dtype())
}
