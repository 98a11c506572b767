//! `mul` keeps each side for the gradient of the other.

use super::rule::Mul;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Mul {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![needs[1].then(|| inputs[0].clone()), needs[0].then(|| inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.empty_like(inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        // The right one first: PyTorch calls it `other`, and gradients come in the order of names. Each has the full shape.
        let right = if at.needs[1] { Some(exec.empty(at.input())?) } else { None };
        let left = if at.needs[0] { Some(exec.empty(at.input())?) } else { None };
        Ok(vec![left, right])
    }
}
