//! Sums of two tensors, as gradients need them.

use super::{Exec, Result};
use crate::device::host::map;
use crate::tensor::Tensor;

impl Exec {
    /// `left + right`, of equal shapes, in a new tensor.
    ///
    /// # Errors
    /// Out of memory.
    pub fn add(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let out = self.empty_like(left)?;
        self.on_host(|host| map!(host, [left, right] => [out], |left, right| [left + right]));
        Ok(out)
    }

    /// `left += right`.
    pub fn add_in_place(&self, left: &Tensor, right: &Tensor) {
        self.on_host(|host| map!(host, [left, right] => [left], |left, right| [left + right]));
    }
}
