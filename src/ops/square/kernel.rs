//! `pow(x, 2)` keeps its input. Backward computes `grad * (2 * x.pow(1))` as written, a tensor for each step.

use super::rule::Square;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Square {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(exec.empty_like(inputs[0])?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let _power = exec.empty(at.input())?;
        let _doubled = exec.empty(at.input())?;
        Ok(vec![Some(exec.empty(at.input())?)])
    }
}
