//! `bce_with_logits`: Mean binary cross entropy of logits. Inputs: x, target.

mod kernel;
pub mod rule;
