//! `log_softmax`: Logarithm of softmax over the last dimension.

pub mod rule;
