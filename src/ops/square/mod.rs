//! `square`: `x²` (`pow(x, 2)`).

pub mod rule;
