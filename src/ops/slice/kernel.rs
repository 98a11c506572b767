//! `slice` gives a view; its gradient is zero everywhere else.

use super::rule::Slice;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl Slice {
    fn of(self, t: &Tensor) -> Tensor {
        t.narrow(self.dim, 0, self.length)
    }
}

impl OpKernel for Slice {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        Identity::View
    }

    fn forward(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(self.of(inputs[0])))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.within_zeros(exec, |whole| self.of(whole))?)])
    }
}
