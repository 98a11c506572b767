//! `mul` keeps each side for the gradient of the other.

use super::rule::Mul;
use crate::device::host::map;
use crate::exec::{Exec, Result, cuda};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Mul {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        // By name, as PyTorch lets go of them: `other` before `self`.
        Ok(vec![needs[0].then(|| inputs[1].clone()), needs[1].then(|| inputs[0].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_over(inputs[0], inputs[1])?;
        exec.on_host(|host| map!(host, [inputs[0], inputs[1]] => [out], |left, right| [left * right]));
        exec.on_cuda(|gpu| cuda::mul(gpu, inputs[0].operand(), inputs[1].operand(), out.operand()));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        // The right one first: PyTorch calls it `other`, and gradients come in the order of names. Each has the full shape.
        let product = |with: &Tensor| -> Result<Tensor> {
            let out = exec.empty_over(at.grad(), with)?;
            exec.on_host(|host| map!(host, [with, at.grad()] => [out], |with, grad| [grad * with]));
            exec.on_cuda(|gpu| cuda::mul(gpu, at.grad().operand(), with.operand(), out.operand()));
            Ok(out)
        };
        let right = if at.needs[1] { Some(product(at.saved(1))?) } else { None };
        let left = if at.needs[0] { Some(product(at.saved(0))?) } else { None };
        Ok(vec![left, right])
    }
}
