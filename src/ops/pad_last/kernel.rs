//! `pad_last` keeps nothing: its gradient is a copy of the front part.

use super::rule::PadLast;
use crate::exec::{Exec, Result};
use crate::meta::TensorMeta;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for PadLast {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let shape = x.shape().with_last(self.size).expect("the output's shape was inferred before");
        let out = exec.empty(TensorMeta::contiguous(shape, x.dtype()))?;
        exec.fill(&out, 0.0);
        exec.copy(x, &out.narrow(x.shape().rank() - 1, 0, x.shape().last()));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let of = &at.inputs[0].shape;
        let part = at.grad().narrow(of.rank() - 1, 0, of.last());
        Ok(vec![Some(exec.clone_as(&part, part.meta().dense())?)])
    }
}
