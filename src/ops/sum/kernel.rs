//! The sum keeps nothing, and its gradient is the incoming one seen from every element: no memory.

use super::rule::Sum;
use crate::exec::{Combine, Exec, Result};
use crate::meta::TensorMeta;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Sum {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.reduce_all(Combine::Sum, inputs[0])?))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let input = &at.inputs[0];
        Ok(vec![Some(at.grad().view(TensorMeta::expanded(input.shape.clone(), input.dtype)))])
    }
}
