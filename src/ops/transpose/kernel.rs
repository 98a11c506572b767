//! `transpose` gives a view, and so is its gradient.

use super::rule::Transpose;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl Transpose {
    fn of(self, t: &Tensor) -> Tensor {
        t.view(t.meta().transposed(self.first, self.second))
    }
}

impl OpKernel for Transpose {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        Identity::View
    }

    fn forward(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(self.of(inputs[0])))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(self.of(at.grad()))])
    }
}
