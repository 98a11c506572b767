//! The execution context's primitives on a GPU. Memory is the callers': these only launch.

mod copy;
mod elementwise;
mod product;
mod sum;

pub(super) use copy::{copy, decode, values};
pub(super) use elementwise::fill;
pub(crate) use elementwise::{add, add_scalar, mul, reciprocal, scale};
pub(super) use product::{Libraries, product, product_with_bias, products};
pub(super) use sum::{Room, sum};
