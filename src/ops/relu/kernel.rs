//! `relu` keeps its output, so in place it needs no memory at all.

use super::rule::Relu;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Relu {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = if self.inplace { inputs[0].clone() } else { exec.empty_like(inputs[0])? };
        Ok(Forward::saving_output(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.empty(at.input())?)])
    }
}
