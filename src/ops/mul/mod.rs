//! `mul`: `left · right`, the right one broadcast.

mod kernel;
pub mod rule;
