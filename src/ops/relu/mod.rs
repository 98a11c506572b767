//! `relu`: `max(x, 0)`.

pub mod rule;
