//! Addition of a number in place takes no memory.

use super::rule::AddScalar;
use crate::device::host::map;
use crate::exec::{Exec, Result, cuda};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for AddScalar {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        Identity::InPlace
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        exec.on_host(|host| map!(host, (value = self.value), [inputs[0]] => [inputs[0]], |x| [x + value]));
        exec.on_cuda(|gpu| cuda::add_scalar(gpu, inputs[0].operand(), self.value, inputs[0].operand()));
        Ok(Forward::plain(inputs[0].clone()))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.grad().clone())])
    }
}
