//! `max_pool2d`: The largest element of each window.

mod kernel;
pub mod rule;
