//! `contiguous`: The tensor itself where it is contiguous, else a contiguous copy.

mod kernel;
pub mod rule;
