//! `adagrad`: Adagrad.

pub mod rule;
