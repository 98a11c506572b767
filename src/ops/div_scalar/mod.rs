//! `div_scalar`: Division by a number.

pub mod rule;
