//! `split` gives views; its gradient puts the parts' gradients together (`cat`).

use super::rule::Split;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Split {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        Identity::View
    }

    fn forward(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        let mut start = 0;
        let parts = self.sizes.iter().map(|&size| {
            start += size;
            x.narrow(x.shape().rank() - 1, start - size, size)
        });
        Ok(Forward { outputs: parts.collect(), ..Forward::default() })
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let dtype = at.grads.iter().flatten().map(Tensor::dtype).next().expect("a node runs only once a gradient has arrived");
        let mut zeros = Vec::new();
        for (&size, _) in self.sizes.iter().zip(at.grads).filter(|(_, g)| g.is_none()) {
            let shape = at.inputs[0].shape.with_last(size).expect("smaller than the whole");
            zeros.push(exec.empty(crate::meta::TensorMeta::contiguous(shape, dtype))?);
        }
        let whole = exec.empty(at.inputs[0].with_dtype(dtype))?;
        let mut start = 0;
        for (&size, grad) in self.sizes.iter().zip(at.grads) {
            let part = whole.narrow(whole.shape().rank() - 1, start, size);
            match grad {
                Some(grad) => exec.copy(grad, &part),
                None => exec.fill(&part, 0.0),
            }
            start += size;
        }
        Ok(vec![Some(whole)])
    }
}
