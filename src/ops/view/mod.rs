//! `view`: The same elements in another shape; no memory of its own.

mod kernel;
pub mod rule;
