//! `flatten_weights` copies each weight into its place, and its gradient out of there.

use super::rule::FlattenWeights;
use crate::exec::{Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

/// The part of a buffer that begins at `offset` and has as many elements as `like`.
pub(in crate::ops) fn part(buffer: &Tensor, offset: u64, like: &TensorMeta) -> Tensor {
    buffer.alias_at(like.with_dtype(buffer.dtype()), offset)
}

impl OpKernel for FlattenWeights {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let elements = inputs.iter().map(|w| w.meta().numel()).sum::<u64>();
        let shape = Shape::new([elements]).expect("the shape was inferred before");
        let out = exec.empty(TensorMeta::contiguous(shape, self.dtype))?;
        for (weight, &offset) in inputs.iter().zip(&self.offsets) {
            exec.copy(weight, &part(&out, offset, weight.meta()));
        }
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let mut gradients = vec![None; at.inputs.len()];
        for i in (0..at.inputs.len()).rev().filter(|&i| at.needs[i]) {
            let of_part = part(at.grad(), self.offsets[i], &at.inputs[i]);
            gradients[i] = Some(exec.clone_as(&of_part, at.inputs[i].clone())?);
        }
        Ok(gradients)
    }
}
