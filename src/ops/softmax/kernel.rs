//! `softmax` keeps its output. Backward takes the product of gradient and output as a temporary, after its result.

use super::rule::Softmax;
use crate::exec::{Exec, Result};
use crate::meta::DType;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Softmax {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let dtype = if self.to_f32 { DType::F32 } else { x.dtype() };
        Ok(Forward::saving_output(exec.empty(x.meta().with_dtype(dtype))?))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let grad_input = exec.empty(at.input())?;
        let _product = exec.empty_like(at.grad())?;
        Ok(vec![Some(grad_input)])
    }
}
