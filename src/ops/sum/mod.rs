//! `sum`: Sum of all elements.

mod kernel;
pub mod rule;
