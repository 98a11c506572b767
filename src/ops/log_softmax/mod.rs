//! `log_softmax`: Logarithm of softmax over the last dimension.

mod kernel;
pub mod rule;
