//! What device code sees of a tensor: where it is and how it is laid out. It owns nothing; the tensor that it was taken from keeps
//! the memory alive.

use crate::meta::{Shape, TensorMeta};

/// A tensor as an argument of device code.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// Address of the first element on the device; 0 where there are no elements.
    pub address: u64,
    /// Shape, element type and strides.
    pub meta: &'a TensorMeta,
}

impl<'a> Operand<'a> {
    /// The same memory seen with another shape or other strides.
    #[must_use]
    pub const fn with(self, meta: &'a TensorMeta) -> Self {
        Self { meta, ..self }
    }

    /// The same memory broadcast to a shape.
    #[must_use]
    pub fn spread(self, shape: &Shape) -> Spread {
        Spread { address: self.address, meta: self.meta.broadcast_to(shape) }
    }

    /// Itself: code over operands reads as code over tensors does.
    #[must_use]
    pub const fn operand(&self) -> Self {
        *self
    }
}

/// An operand that has a layout of its own.
#[derive(Debug, Clone)]
pub struct Spread {
    address: u64,
    meta: TensorMeta,
}

impl Spread {
    /// The operand.
    #[must_use]
    pub const fn operand(&self) -> Operand<'_> {
        Operand { address: self.address, meta: &self.meta }
    }
}
