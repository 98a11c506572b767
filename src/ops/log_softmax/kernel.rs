//! `log_softmax` keeps its output.

use super::rule::LogSoftmax;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for LogSoftmax {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::saving_output(exec.empty_like(inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let grad_input = exec.empty(at.input())?;
        let _grad = exec.contiguous(at.grad())?;
        Ok(vec![Some(grad_input)])
    }
}
