//! `binary_cross_entropy_with_logits`: two temporaries of the input's size.

use super::rule::BceWithLogits;
use crate::device::cuda::{Arg, Source};
use crate::device::host::map;
use crate::exec::{Combine, Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "bce_with_logits", text: include_str!("kernel.cu") };

impl OpKernel for BceWithLogits {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let _log_sigmoid = exec.empty_like(inputs[0])?;
        let losses = exec.empty_like(inputs[0])?;
        exec.on_host(|host| {
            map!(host, [inputs[0], inputs[1]] => [losses], |x, target| [{
                let log_sigmoid = x.min(0.0) - (-x.abs()).exp().ln_1p();
                (1.0 - target) * x - log_sigmoid
            }]);
        });
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "bce_with_logits_forward", losses.operand(), [inputs[0].operand(), inputs[1].operand()], &[]));
        Ok(Forward::plain(exec.reduce_all(Combine::Mean, &losses)?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty_over(at.saved(0), at.saved(1))?;
        exec.on_host(|host| {
            let share = 1.0 / out.meta().numel() as f64;
            map!(host, (share = share), [at.saved(0), at.saved(1), at.grad()] => [out], |x, target, grad| [{
                (1.0 / (1.0 + (-x).exp()) - target) * grad * share
            }]);
        });
        exec.on_cuda(|gpu| {
            let share = 1.0 / out.meta().numel() as f64;
            let inputs = [at.saved(0).operand(), at.saved(1).operand()];
            gpu.map(&SOURCE, "bce_with_logits_backward", out.operand(), inputs, &[at.grad().operand().into(), Arg::from(share)]);
        });
        Ok(vec![Some(out), None])
    }
}
