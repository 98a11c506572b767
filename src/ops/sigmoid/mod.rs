//! `sigmoid`: Logistic sigmoid.

pub mod rule;
