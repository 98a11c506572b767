//! `copy_into` writes a part of its first input; its gradient comes out of there in the copied tensor's own type.

use super::rule::CopyInto;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for CopyInto {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (buffer, copied) = (inputs[0], inputs[1]);
        let part = buffer.alias_at(copied.meta().like().with_dtype(buffer.dtype()), self.offset);
        exec.copy(copied, &part);
        Ok(Forward::plain(part))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (grad, dtype) = (at.grad(), at.inputs[1].dtype);
        let of_copied = if grad.dtype() == dtype { grad.clone() } else { exec.to_dtype(grad, dtype)? };
        Ok(vec![None, Some(of_copied)])
    }
}
