//! `expand` gives a view; the engine sums its gradient over what was spread.

use super::rule::Expand;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Expand {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        Identity::View
    }

    fn forward(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(inputs[0].view(inputs[0].meta().broadcast_to(&self.shape))))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.grad().clone())])
    }
}
