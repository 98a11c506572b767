//! `mean_last`: Mean over the last dimension, kept as size 1.

mod kernel;
pub mod rule;
