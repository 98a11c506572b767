//! `silu`: `x · sigmoid(x)`.

mod kernel;
pub mod rule;
