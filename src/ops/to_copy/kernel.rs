//! A cast keeps nothing; its gradient is cast back.

use super::rule::ToCopy;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for ToCopy {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.to_dtype(inputs[0], self.dtype)?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.to_dtype(at.grad(), at.inputs[0].dtype)?)])
    }
}
