//! `gelu`: Gaussian error linear unit.

pub mod rule;
