//! Division by a number keeps nothing.

use super::rule::DivScalar;
use crate::device::host::map;
use crate::exec::{Exec, Result, cuda};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl DivScalar {
    fn divided(self, exec: &Exec, x: &Tensor) -> Result<Tensor> {
        let out = exec.empty_dense(x)?;
        exec.on_host(|host| map!(host, (inverse = 1.0 / self.divisor), [x] => [out], |x| [x * inverse]));
        exec.on_cuda(|gpu| cuda::scale(gpu, x.operand(), 1.0 / self.divisor, out.operand()));
        Ok(out)
    }
}

impl OpKernel for DivScalar {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(self.divided(exec, inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(self.divided(exec, at.grad())?)])
    }
}
