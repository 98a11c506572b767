//! `avg_pool2d`: The mean of each window, what lies around the input counted as zeros.

mod kernel;
pub mod rule;
