//! `mul` keeps each side for the gradient of the other.

use super::rule::Mul;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Mul {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![needs[1].then(|| inputs[0].clone()), needs[0].then(|| inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_like(inputs[0])?;
        exec.on_host(|host| map!(host, [inputs[0], inputs[1]] => [out], |left, right| [left * right]));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        // The right one first: PyTorch calls it `other`, and gradients come in the order of names. Each has the full shape.
        let of_right = if at.needs[1] { Some(exec.empty(at.input())?) } else { None };
        if let Some(out) = &of_right {
            exec.on_host(|host| map!(host, [at.saved(0), at.grad()] => [out], |left, grad| [grad * left]));
        }
        let of_left = if at.needs[0] { Some(exec.empty(at.input())?) } else { None };
        if let Some(out) = &of_left {
            exec.on_host(|host| map!(host, [at.saved(1), at.grad()] => [out], |right, grad| [grad * right]));
        }
        Ok(vec![of_left, of_right])
    }
}
