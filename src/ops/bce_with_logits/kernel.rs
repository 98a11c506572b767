//! `binary_cross_entropy_with_logits`: two temporaries of the input's size.

use super::rule::BceWithLogits;
use crate::exec::{Combine, Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for BceWithLogits {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let _log_sigmoid = exec.empty_like(inputs[0])?;
        let losses = exec.empty_like(inputs[0])?;
        Ok(Forward::plain(exec.reduce_all(Combine::Mean, &losses)?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.empty(at.input())?), None])
    }
}
