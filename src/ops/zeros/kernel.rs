//! `zeros` keeps nothing and has no gradient.

use super::rule::Zeros;
use crate::exec::{Exec, Result};
use crate::meta::TensorMeta;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Zeros {
    fn forward(&self, exec: &Exec, _inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty(TensorMeta::contiguous(self.shape.clone(), self.dtype))?;
        exec.fill(&out, 0.0);
        Ok(Forward::plain(out))
    }

    fn backward(&self, _exec: &Exec, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(Vec::new())
    }
}
