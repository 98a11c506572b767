//! `mean`: Mean of all elements.

pub(in crate::ops) mod kernel;
pub mod rule;
