//! Views in another shape, and parts: other shapes and strides over the same storage.

use super::Tensor;
use crate::meta::{Shape, TensorMeta};

impl Tensor {
    /// This tensor's elements in another shape without a copy; `None` where its strides do not allow it.
    #[must_use]
    pub fn reshaped(&self, shape: &Shape) -> Option<Self> {
        self.meta().viewed(shape).map(|meta| self.view(meta))
    }

    /// A matrix with its sides exchanged, over the same storage.
    ///
    /// # Panics
    /// It is not a matrix.
    #[must_use]
    pub fn transposed(&self) -> Self {
        assert_eq!(self.shape().rank(), 2, "only a matrix can be transposed, not {}", self.shape());
        self.view(self.meta().transposed(0, 1))
    }

    /// A part of `size` along a dimension, from `start` on.
    #[must_use]
    pub fn narrow(&self, dim: usize, start: u64, size: u64) -> Self {
        let meta = self.meta();
        let mut dims = meta.shape.dims().to_vec();
        dims[dim] = size;
        let shape = Shape::new(dims).expect("no more elements than before");
        self.view_at(TensorMeta { shape, dtype: meta.dtype, strides: meta.strides.clone() }, start * meta.strides[dim])
    }
}
