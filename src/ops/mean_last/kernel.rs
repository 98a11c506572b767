//! The mean of the last dimension keeps nothing; its gradient is spread out and divided, so it is a tensor of its own.

use super::rule::MeanLast;
use crate::exec::{Combine, Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::mean::kernel::spread;
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
        spread(exec, at)
    }
}
