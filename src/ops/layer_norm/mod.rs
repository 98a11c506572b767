//! `layer_norm`: Layer normalisation over the last dimension. Inputs: x, weight, bias if `bias`.

mod kernel;
pub mod rule;
