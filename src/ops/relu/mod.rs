//! `relu`: `max(x, 0)`.

mod kernel;
pub mod rule;
