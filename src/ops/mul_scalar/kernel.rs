//! Multiplication by a number keeps nothing.

use super::rule::MulScalar;
use crate::device::host::map;
use crate::exec::{Exec, Result, cuda};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl MulScalar {
    fn scaled(self, exec: &Exec, x: &Tensor) -> Result<Tensor> {
        let out = exec.empty_dense(x)?;
        exec.on_host(|host| map!(host, (factor = self.factor), [x] => [out], |x| [x * factor]));
        exec.on_cuda(|gpu| cuda::scale(gpu, x.operand(), self.factor, out.operand()));
        Ok(out)
    }
}

impl OpKernel for MulScalar {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(self.scaled(exec, inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(self.scaled(exec, at.grad())?)])
    }
}
