//! `bmm` keeps each side for the gradient of the other.

use super::rule::Bmm;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Bmm {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        // By name, as PyTorch lets go of them: `mat2` before `self`.
        Ok(vec![needs[0].then(|| inputs[1].clone()), needs[1].then(|| inputs[0].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.bmm(inputs[0], inputs[1])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let flipped = |t: &Tensor| t.view(t.meta().transposed(1, 2));
        // The right side first: PyTorch calls it `mat2`, and gradients come in the order of names.
        let right = if at.needs[1] { Some(exec.bmm(&flipped(at.saved(1)), at.grad())?) } else { None };
        let left = if at.needs[0] { Some(exec.bmm(at.grad(), &flipped(at.saved(0)))?) } else { None };
        Ok(vec![left, right])
    }
}
