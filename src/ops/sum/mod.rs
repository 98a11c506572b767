//! `sum`: Sum of all elements.

pub mod rule;
