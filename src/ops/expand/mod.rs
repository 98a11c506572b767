//! `expand`: Dimensions of size 1 spread over more places.

mod kernel;
pub mod rule;
