//! The mean of the last dimension keeps nothing; its gradient is spread out and divided, so it is a tensor of its own.

use super::rule::MeanLast;
use crate::device::host::map;
use crate::exec::{Combine, Exec, Result, cuda};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for MeanLast {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let mut reduced = vec![false; x.shape().rank()];
        if let Some(last) = reduced.last_mut() {
            *last = true;
        }
        Ok(Forward::plain(exec.reduce(Combine::Mean, x, &reduced)?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty(at.input())?;
        exec.on_host(|host| {
            let share = at.grad().meta().numel() as f64 / out.meta().numel() as f64;
            map!(host, (share = share), [at.grad()] => [out], |grad| [grad * share]);
        });
        exec.on_cuda(|gpu| {
            let share = at.grad().meta().numel() as f64 / out.meta().numel() as f64;
            cuda::scale(gpu, at.grad().operand().spread(out.shape()).operand(), share, out.operand());
        });
        Ok(vec![Some(out)])
    }
}
