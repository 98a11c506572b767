//! `silu` keeps its input; in place it keeps a copy, made before the values are replaced.

use super::rule::Silu;
use crate::device::cuda::Source;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "silu", text: include_str!("kernel.cu") };

impl OpKernel for Silu {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        if self.inplace { Identity::InPlace } else { Identity::New }
    }

    fn save_inputs(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let kept = if self.inplace { exec.clone_as(inputs[0], inputs[0].meta().dense())? } else { inputs[0].clone() };
        Ok(vec![Some(kept)])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = if self.inplace { inputs[0].clone() } else { exec.empty_dense(inputs[0])? };
        exec.on_host(|host| map!(host, [inputs[0]] => [out], |x| [x / (1.0 + (-x).exp())]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "silu_forward", out.operand(), [inputs[0].operand()], &[]));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty_over(at.grad(), at.saved(0))?;
        exec.on_host(|host| {
            map!(host, [at.saved(0), at.grad()] => [out], |x, grad| [{
                let sigmoid = 1.0 / (1.0 + (-x).exp());
                grad * sigmoid * (1.0 + x * (1.0 - sigmoid))
            }])
        });
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "silu_backward", out.operand(), [at.grad().operand(), at.saved(0).operand()], &[]));
        Ok(vec![Some(out)])
    }
}
