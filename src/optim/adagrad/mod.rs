//! `adagrad`: Adagrad.

pub(super) mod kernel;
pub mod rule;
