//! `transpose`: Two dimensions exchanged.

mod kernel;
pub mod rule;
