//! `pad_last`: Zeros behind the last dimension.

mod kernel;
pub mod rule;
