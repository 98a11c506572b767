//! `rms_norm`: Root-mean-square normalisation over the last dimension, fused. Inputs: x, weight.

mod kernel;
pub mod rule;
