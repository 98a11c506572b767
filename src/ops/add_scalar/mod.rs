//! `add_scalar`: Addition of a number, in place.

mod kernel;
pub mod rule;
