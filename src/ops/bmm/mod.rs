//! `bmm`: Products of matrices, one a batch entry.

mod kernel;
pub mod rule;
