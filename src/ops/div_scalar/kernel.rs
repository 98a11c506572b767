//! Division by a number keeps nothing.

use super::rule::DivScalar;
use crate::device::host::map;
use crate::exec::{Exec, Result, cuda};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for DivScalar {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_dense(inputs[0])?;
        exec.on_host(|host| map!(host, (inverse = 1.0 / self.divisor), [inputs[0]] => [out], |x| [x * inverse]));
        exec.on_cuda(|gpu| cuda::scale(gpu, inputs[0].operand(), 1.0 / self.divisor, out.operand()));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty_dense(at.grad())?;
        exec.on_host(|host| map!(host, (inverse = 1.0 / self.divisor), [at.grad()] => [out], |grad| [grad * inverse]));
        exec.on_cuda(|gpu| cuda::scale(gpu, at.grad().operand(), 1.0 / self.divisor, out.operand()));
        Ok(vec![Some(out)])
    }
}
