//! `tanh` keeps its output.

use super::rule::Tanh;
use crate::device::cuda::Source;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "tanh", text: include_str!("kernel.cu") };

impl OpKernel for Tanh {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_dense(inputs[0])?;
        exec.on_host(|host| map!(host, [inputs[0]] => [out], |x| [x.tanh()]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "tanh_forward", out.operand(), [inputs[0].operand()], &[]));
        Ok(Forward::saving_output(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty_over(at.grad(), at.saved(0))?;
        exec.on_host(|host| map!(host, [at.saved(0), at.grad()] => [out], |y, grad| [grad * (1.0 - y * y)]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "tanh_backward", out.operand(), [at.grad().operand(), at.saved(0).operand()], &[]));
        Ok(vec![Some(out)])
    }
}
