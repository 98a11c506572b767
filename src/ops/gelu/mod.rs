//! `gelu`: Gaussian error linear unit.

mod kernel;
pub mod rule;
