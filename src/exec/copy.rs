//! Copies: into contiguous memory, into another element type, of one tensor onto another.

use std::rc::Rc;

use super::context::contiguous_meta;
use super::{Exec, Result, cuda};
use crate::meta::{DType, Shape, TensorMeta};
use crate::tensor::Tensor;

impl Exec {
    /// A contiguous copy.
    ///
    /// # Errors
    /// Out of memory.
    pub fn clone_contiguous(&self, t: &Tensor) -> Result<Tensor> {
        self.clone_as(t, contiguous_meta(t))
    }

    /// A copy of the given layout (and type).
    ///
    /// # Errors
    /// Out of memory.
    pub fn clone_as(&self, t: &Tensor, meta: impl Into<Rc<TensorMeta>>) -> Result<Tensor> {
        let out = self.empty(meta)?;
        self.copy(t, &out);
        Ok(out)
    }

    /// The tensor itself where it is contiguous, else a contiguous copy.
    ///
    /// # Errors
    /// Out of memory.
    pub fn contiguous(&self, t: &Tensor) -> Result<Tensor> {
        if t.meta().is_contiguous() { Ok(t.clone()) } else { self.clone_contiguous(t) }
    }

    /// A copy in another element type, dense and in the order of dimensions of the original.
    ///
    /// # Errors
    /// Out of memory.
    pub fn to_dtype(&self, t: &Tensor, dtype: DType) -> Result<Tensor> {
        let mut meta = t.meta().dense();
        meta.dtype = dtype;
        self.clone_as(t, meta)
    }

    /// The same elements in another shape: a view where strides allow it, else a copy.
    ///
    /// # Errors
    /// Out of memory.
    pub fn reshape(&self, t: &Tensor, shape: &Shape) -> Result<Tensor> {
        match t.reshaped(shape) {
            Some(view) => Ok(view),
            None => {
                let copy = self.clone_contiguous(t)?;
                Ok(copy.view(TensorMeta::contiguous(shape.clone(), t.dtype())))
            }
        }
    }

    /// Overwrites `to` with `from`, of the same shape or broadcast to it.
    pub fn copy(&self, from: &Tensor, to: &Tensor) {
        self.on_host(|host| host.copy(from.operand(), to.operand()));
        self.on_cuda(|gpu| cuda::copy(gpu, from.operand().spread(to.shape()).operand(), to.operand()));
    }

    /// Overwrites every element.
    pub fn fill(&self, t: &Tensor, value: f64) {
        self.on_host(|host| host.fill(t.operand(), value));
        self.on_cuda(|gpu| cuda::fill(gpu, value, t.operand()));
    }
}
