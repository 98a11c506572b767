//! `softmax`: Softmax over the last dimension.

pub(super) mod kernel;
pub mod rule;
