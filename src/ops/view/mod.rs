//! `view`: The same elements in another shape; no memory of its own.

pub mod rule;
