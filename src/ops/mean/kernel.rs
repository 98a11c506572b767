//! The mean keeps nothing; its gradient is spread out and divided, so it is a tensor of its own.

use super::rule::Mean;
use crate::exec::{Combine, Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Mean {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.reduce_all(Combine::Mean, inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.empty(at.input())?)])
    }
}
