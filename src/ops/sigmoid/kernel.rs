//! `sigmoid` keeps its output.

use super::rule::Sigmoid;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Sigmoid {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::saving_output(exec.empty_like(inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.empty(at.input())?)])
    }
}
