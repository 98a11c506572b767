//! The mean keeps nothing; its gradient is spread out and divided, so it is a tensor of its own.

use super::rule::Mean;
use crate::device::host::map;
use crate::exec::{Combine, Exec, Result, cuda};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Mean {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.reduce_all(Combine::Mean, inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        spread(exec, at)
    }
}

/// The gradient of a mean over some dimensions: each element gets an equal share of that of its mean.
pub(in crate::ops) fn spread(exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
    let out = exec.empty(at.input())?;
    let share = at.grad().meta().numel() as f64 / out.meta().numel() as f64;
    exec.on_host(|host| map!(host, (share = share), [at.grad()] => [out], |grad| [grad * share]));
    exec.on_cuda(|gpu| cuda::scale(gpu, at.grad().operand().spread(out.shape()).operand(), share, out.operand()));
    Ok(vec![Some(out)])
}
