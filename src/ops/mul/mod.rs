//! `mul`: `left · right`, the right one broadcast.

pub mod rule;
