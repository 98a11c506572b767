//! `dropout`: a mask of one byte an element, before the output; in place, scaled noise of the input's type instead. The input itself where
//! nothing is dropped.

use super::rule::Dropout;
use crate::exec::{Exec, Result};
use crate::meta::{DType, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl Dropout {
    fn drops(&self) -> bool {
        self.training && self.p > 0.0
    }
}

impl OpKernel for Dropout {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        if !self.drops() {
            return Ok(Forward::plain(x.clone()));
        }
        // Everything is dropped: a product with a zero.
        if self.p >= 1.0 {
            let zero = exec.empty(TensorMeta::scalar(x.dtype()))?;
            let out = if self.inplace { x.clone() } else { exec.empty_like(x)? };
            return Ok(Forward::saving(out, if needs[0] { vec![zero] } else { Vec::new() }));
        }
        if self.inplace {
            let noise = exec.empty_like(x)?;
            return Ok(Forward::saving(x.clone(), [noise]));
        }
        let mask = exec.empty(x.meta().with_dtype(DType::Bool))?;
        let out = exec.empty_like(x)?;
        Ok(Forward::saving(out, [mask]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        if !self.drops() {
            return Ok(vec![Some(at.grad().clone())]);
        }
        Ok(vec![Some(exec.empty(at.input())?)])
    }
}
