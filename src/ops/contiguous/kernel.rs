//! A copy keeps nothing; its gradient is the incoming one.

use super::rule::Contiguous;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Contiguous {
    fn identity(&self, inputs: &[&Tensor]) -> Identity {
        if inputs[0].meta().is_contiguous() { Identity::Input } else { Identity::New }
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.contiguous(inputs[0])?))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.grad().clone())])
    }
}
