//! Two tensors to one: the output that PyTorch makes for them, and sums, as gradients need them too.

use std::rc::Rc;

use super::{Exec, Result, cuda};
use crate::device::host::map;
use crate::meta::{DType, Shape, TensorMeta};
use crate::tensor::Tensor;

impl Exec {
    /// A new tensor for an elementwise operator over two: sides of size 1 are spread, the wider type wins, and it lies as they do, the
    /// first one heard first.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty_over(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        self.empty(meta_over(left, right))
    }

    /// `left + right`, in a new tensor.
    ///
    /// # Errors
    /// Out of memory.
    pub fn add(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let out = self.empty_over(left, right)?;
        self.on_host(|host| map!(host, [left, right] => [out], |left, right| [left + right]));
        self.on_cuda(|gpu| cuda::add(gpu, left.operand(), right.operand(), out.operand()));
        Ok(out)
    }

    /// `left += right`.
    pub fn add_in_place(&self, left: &Tensor, right: &Tensor) {
        self.on_host(|host| map!(host, [left, right] => [left], |left, right| [left + right]));
        self.on_cuda(|gpu| cuda::add(gpu, left.operand(), right.operand(), left.operand()));
    }
}

fn meta_over(left: &Tensor, right: &Tensor) -> Rc<TensorMeta> {
    let alike = left.shape() == right.shape() && left.dtype() == right.dtype();
    if alike && left.meta().is_contiguous() && right.meta().is_contiguous() {
        return left.shared_meta();
    }
    let dtype = match (left.dtype(), right.dtype()) {
        (a, b) if a == b => a,
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        _ => DType::F32,
    };
    let operands = [left.meta(), right.meta()];
    let (left, right) = (left.shape().dims(), right.shape().dims());
    let side = |dims: &[u64], from_last: usize| dims.len().checked_sub(from_last + 1).map_or(1, |i| dims[i]);
    let rank = left.len().max(right.len());
    let dims: Vec<u64> = (0..rank).rev().map(|i| side(left, i).max(side(right, i))).collect();
    Rc::new(TensorMeta::over(Shape::new(dims).expect("the shapes go together, as was inferred before"), dtype, &operands))
}
