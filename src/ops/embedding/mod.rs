//! `embedding`: Rows of a table, looked up.

mod kernel;
pub mod rule;
