//! `group_norm`: Normalisation of each sample over groups of channels.

mod kernel;
pub mod rule;
