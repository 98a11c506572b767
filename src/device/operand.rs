//! What device code sees of a tensor: where it is and how it is laid out. It owns nothing; the tensor that it was taken from keeps
//! the memory alive.

use crate::meta::TensorMeta;

/// A tensor as an argument of device code.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// Address of the first element on the device; 0 where there are no elements.
    pub address: u64,
    /// Shape, element type and strides.
    pub meta: &'a TensorMeta,
}
