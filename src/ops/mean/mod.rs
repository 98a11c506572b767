//! `mean`: Mean of all elements.

mod kernel;
pub mod rule;
