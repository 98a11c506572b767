//! `mean_last`: Mean over the last dimension, kept as size 1.

pub mod rule;
