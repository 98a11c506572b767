//! `mul_scalar`: Multiplication by a number.

mod kernel;
pub mod rule;
