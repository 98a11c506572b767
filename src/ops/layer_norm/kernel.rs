//! `layer_norm` keeps its input and, for each row, mean and reciprocal deviation.

use super::rule::LayerNorm;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::ops::row_norm::{parameter_gradients, row_statistics};
use crate::tensor::Tensor;

impl OpKernel for LayerNorm {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(inputs.iter().map(|&t| Some(t.clone())).collect())
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let out = exec.empty_like(x)?;
        let mean = exec.empty(row_statistics(x.meta()))?;
        let rstd = exec.empty(mean.shared_meta())?;
        Ok(Forward::saving(out, [mean, rstd]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let _grad = exec.contiguous(at.grad())?;
        let x = if at.needs[0] { Some(exec.empty(at.input())?) } else { None };
        let parameters = parameter_gradients(exec, at)?;
        Ok(std::iter::once(x).chain(parameters).collect())
    }
}
