//! `rsqrt`: `1 / √x`.

mod kernel;
pub mod rule;
