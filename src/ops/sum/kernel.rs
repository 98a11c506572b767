//! The sum keeps nothing, and its gradient is the incoming one seen from every element: no memory.

use super::rule::Sum;
use crate::exec::{Combine, Exec, Result};
use crate::meta::{DType, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Sum {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let dtype = if self.to_f32 && x.dtype().is_half() { DType::F32 } else { x.dtype() };
        let out = exec.empty(TensorMeta::scalar(dtype))?;
        exec.reduce_all_into(Combine::Sum, x, &out)?;
        Ok(Forward::plain(out))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let spread = TensorMeta::expanded(at.inputs[0].shape.clone(), at.grad().dtype());
        Ok(vec![Some(at.grad().view(spread))])
    }
}
