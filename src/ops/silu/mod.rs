//! `silu`: `x · sigmoid(x)`.

pub mod rule;
