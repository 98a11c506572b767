//! `sigmoid`: Logistic sigmoid.

mod kernel;
pub mod rule;
