//! `square`: `x²` (`pow(x, 2)`).

mod kernel;
pub mod rule;
