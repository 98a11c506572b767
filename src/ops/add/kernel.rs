//! `add` keeps nothing: both gradients are the incoming one.

use super::rule::Add;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Add {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        if self.inplace { Identity::InPlace } else { Identity::New }
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        if self.inplace {
            exec.add_in_place(inputs[0], inputs[1]);
            return Ok(Forward::plain(inputs[0].clone()));
        }
        Ok(Forward::plain(exec.add(inputs[0], inputs[1])?))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(at.needs.iter().map(|&needed| needed.then(|| at.grad().clone())).collect())
    }
}
