//! The execution context's primitives on a GPU. Memory is the callers': these only launch.

mod copy;
mod elementwise;
mod product;
mod sum;

pub(super) use copy::copy;
pub(super) use elementwise::{add, fill};
pub(super) use product::{product, product_with_bias};
pub(super) use sum::sum;
pub(crate) use elementwise::{add_scalar, mul, scale};
