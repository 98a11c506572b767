//! `bce_with_logits`: Mean binary cross entropy of logits. Inputs: x, target.

pub mod rule;
