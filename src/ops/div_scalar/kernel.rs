//! Division by a number keeps nothing.

use super::rule::DivScalar;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for DivScalar {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.empty_like(inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.empty(at.input())?)])
    }
}
