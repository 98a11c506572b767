//! `view` takes no memory, and its gradient is a view of the incoming one.

use super::rule::View;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for View {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        if self.hidden { Identity::New } else { Identity::View }
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let view = exec.reshape(inputs[0], &self.shape)?;
        Ok(Forward::plain(if self.hidden { view.detach() } else { view }))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(exec.reshape(at.grad(), &at.inputs[0].shape)?)])
    }
}
