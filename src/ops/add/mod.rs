//! `add`: `left + right`, of equal shapes.

mod kernel;
pub mod rule;
