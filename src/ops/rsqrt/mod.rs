//! `rsqrt`: `1 / √x`.

pub mod rule;
