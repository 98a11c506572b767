//! Sums and means over dimensions.

use super::{Exec, Result, cuda};
use crate::meta::{Shape, TensorMeta};
use crate::tensor::Tensor;

/// How a reduction combines elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    Sum,
    Mean,
}

impl Exec {
    /// A sum or mean of `t` over the dimensions that `reduced` marks, which are kept as size 1.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reduce(&self, how: Combine, t: &Tensor, reduced: &[bool]) -> Result<Tensor> {
        let kept: Vec<u64> = t.shape().dims().iter().zip(reduced).map(|(&d, &reduced)| if reduced { 1 } else { d }).collect();
        let shape = Shape::new(kept).expect("no more elements than before");
        let out = self.empty(TensorMeta::contiguous(shape, t.dtype()))?;
        self.reduce_into(how, t, reduced, &out)?;
        Ok(out)
    }

    /// A sum or mean over everything.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reduce_all(&self, how: Combine, t: &Tensor) -> Result<Tensor> {
        let out = self.empty(TensorMeta::scalar(t.dtype()))?;
        self.reduce_all_into(how, t, &out)?;
        Ok(out)
    }

    /// A sum or mean over everything, into a scalar that is there already.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reduce_all_into(&self, how: Combine, t: &Tensor, out: &Tensor) -> Result<()> {
        self.reduce_into(how, t, &vec![true; t.shape().rank()], out)
    }

    fn reduce_into(&self, how: Combine, t: &Tensor, reduced: &[bool], out: &Tensor) -> Result<()> {
        let factor = match how {
            Combine::Sum => 1.0,
            Combine::Mean => out.meta().numel() as f64 / t.meta().numel() as f64,
        };
        self.with_reduction_scratch(t.meta(), reduced, out.dtype(), |room| {
            self.on_host(|host| host.reduce(t.operand(), reduced, factor, out.operand()));
            self.on_cuda(|gpu| cuda::sum(gpu, t.operand(), reduced, factor, out.operand(), room));
        })
    }

    /// `at::sum_to`: undoes a broadcast, by summing what was spread. The tensor itself where nothing was.
    ///
    /// # Errors
    /// Out of memory.
    pub fn sum_to(&self, t: &Tensor, shape: &Shape) -> Result<Tensor> {
        let (from, to) = (t.shape().dims(), shape.dims());
        let leading = from.len() - to.len();
        let reduced: Vec<bool> = from.iter().enumerate().map(|(i, &d)| i < leading || (to[i - leading] == 1 && d != 1)).collect();
        if !reduced.contains(&true) {
            return Ok(t.clone());
        }
        let summed = self.reduce(Combine::Sum, t, &reduced)?;
        Ok(if leading > 0 { summed.view(TensorMeta::contiguous(shape.clone(), t.dtype())) } else { summed })
    }
}
