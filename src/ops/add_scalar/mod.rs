//! `add_scalar`: Addition of a number, in place.

pub mod rule;
