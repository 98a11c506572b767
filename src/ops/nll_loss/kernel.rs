//! `nll_loss` keeps the log-probabilities, the targets and the total weight of the rows.

use super::rule::NllLoss;
use crate::exec::{Exec, Result};
use crate::meta::TensorMeta;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for NllLoss {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty(TensorMeta::scalar(inputs[0].dtype()))?;
        let total_weight = exec.empty(out.shared_meta())?;
        Ok(Forward::saving(out, [total_weight]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.empty(at.input())?), None])
    }
}
