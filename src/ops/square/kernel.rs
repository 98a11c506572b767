//! `pow(x, 2)` keeps its input. Backward computes `grad * (2 * x.pow(1))` as written, a tensor for each step.

use super::rule::Square;
use crate::device::cuda::Source;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "square", text: include_str!("kernel.cu") };

impl OpKernel for Square {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_dense(inputs[0])?;
        exec.on_host(|host| map!(host, [inputs[0]] => [out], |x| [x * x]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "square_forward", out.operand(), [inputs[0].operand()], &[]));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let _power = exec.empty_over(at.grad(), at.saved(0))?;
        let _doubled = exec.empty_over(at.grad(), at.saved(0))?;
        let out = exec.empty_over(at.grad(), at.saved(0))?;
        exec.on_host(|host| map!(host, [at.saved(0), at.grad()] => [out], |x, grad| [grad * (2.0 * x)]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "square_backward", out.operand(), [at.grad().operand(), at.saved(0).operand()], &[]));
        Ok(vec![Some(out)])
    }
}
