//! `slice`: The first places of a dimension: `x[..., :length, ...]`.

mod kernel;
pub mod rule;
