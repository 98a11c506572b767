//! `add`: `left + right`, of equal shapes.

pub mod rule;
