//! `mse_loss`: PyTorch makes the output in the shape of the input and shrinks it to a scalar, so the loss keeps memory for every element
//! as long as it lives.

use super::rule::MseLoss;
use crate::device::cuda::{Arg, Source};
use crate::device::host::map;
use crate::exec::{Combine, Exec, Result};
use crate::meta::TensorMeta;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "mse_loss", text: include_str!("kernel.cu") };

impl OpKernel for MseLoss {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_like(inputs[0])?.alias(TensorMeta::scalar(inputs[0].dtype()));
        let squares = exec.empty_like(inputs[0])?;
        exec.on_host(|host| map!(host, [inputs[0], inputs[1]] => [squares], |x, target| [(x - target) * (x - target)]));
        exec.on_cuda(|gpu| gpu.map(&SOURCE, "mse_loss_forward", squares.operand(), [inputs[0].operand(), inputs[1].operand()], &[]));
        exec.reduce_all_into(Combine::Mean, &squares, &out)?;
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty(at.input())?;
        exec.on_host(|host| {
            let share = 2.0 / out.meta().numel() as f64;
            map!(host, (share = share), [at.saved(0), at.saved(1), at.grad()] => [out], |x, target, grad| [share * (x - target) * grad]);
        });
        exec.on_cuda(|gpu| {
            let share = 2.0 / out.meta().numel() as f64;
            let inputs = [at.saved(0).operand(), at.saved(1).operand()];
            gpu.map(&SOURCE, "mse_loss_backward", out.operand(), inputs, &[at.grad().operand().into(), Arg::from(share)]);
        });
        Ok(vec![Some(out), None])
    }
}
