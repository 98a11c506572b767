//! `sigmoid` keeps its output.

use super::rule::Sigmoid;
use crate::device::cuda::Source;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "sigmoid", text: include_str!("kernel.cu") };

impl OpKernel for Sigmoid {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_dense(inputs[0])?;
        exec.on_host(|host| map!(host, [inputs[0]] => [out], |x| [1.0 / (1.0 + (-x).exp())]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "sigmoid_forward", out.operand(), [inputs[0].operand()], &[]));
        Ok(Forward::saving_output(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty_over(at.grad(), at.saved(0))?;
        exec.on_host(|host| map!(host, [at.saved(0), at.grad()] => [out], |y, grad| [grad * (1.0 - y) * y]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "sigmoid_backward", out.operand(), [at.grad().operand(), at.saved(0).operand()], &[]));
        Ok(vec![Some(out)])
    }
}
