//! `div_scalar`: Division by a number.

mod kernel;
pub mod rule;
