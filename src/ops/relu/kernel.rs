//! `relu` keeps its output, so in place it needs no memory at all.

use super::rule::Relu;
use crate::device::cuda::Source;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "relu", text: include_str!("kernel.cu") };

impl OpKernel for Relu {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        if self.inplace { Identity::InPlace } else { Identity::New }
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = if self.inplace { inputs[0].clone() } else { exec.empty_dense(inputs[0])? };
        exec.on_host(|host| map!(host, [inputs[0]] => [out], |x| [if x <= 0.0 { 0.0 } else { x }]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "relu_forward", out.operand(), [inputs[0].operand()], &[]));
        Ok(Forward::saving_output(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty_over(at.saved(0), at.grad())?;
        exec.on_host(|host| map!(host, [at.saved(0), at.grad()] => [out], |y, grad| [if y <= 0.0 { 0.0 } else { grad }]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "relu_backward", out.operand(), [at.grad().operand(), at.saved(0).operand()], &[]));
        Ok(vec![Some(out)])
    }
}
