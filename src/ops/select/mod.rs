//! `select`: One place of a dimension, which goes: `x[:, index]`.

mod kernel;
pub mod rule;
