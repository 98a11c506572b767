//! `silu` keeps its input; in place it keeps a copy, made before the values are replaced.

use super::rule::Silu;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Silu {
    fn save_inputs(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let kept = if self.inplace { exec.clone_contiguous(inputs[0])? } else { inputs[0].clone() };
        Ok(vec![Some(kept)])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(if self.inplace { inputs[0].clone() } else { exec.empty_like(inputs[0])? }))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.empty(at.input())?)])
    }
}
