//! `softmax`: Softmax over the last dimension.

mod kernel;
pub mod rule;
