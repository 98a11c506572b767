//! `mean`: Mean of all elements.

pub mod rule;
