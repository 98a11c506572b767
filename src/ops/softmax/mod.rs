//! `softmax`: Softmax over the last dimension.

pub mod rule;
