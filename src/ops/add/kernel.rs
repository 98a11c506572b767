//! `add` keeps nothing: both gradients are the incoming one.

use super::rule::Add;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Add {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(if self.inplace { inputs[0].clone() } else { exec.empty_like(inputs[0])? }))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(at.needs.iter().map(|&needed| needed.then(|| at.grad().clone())).collect())
    }
}
