//! `adaptive_avg_pool2d`: Means over windows chosen so that the output has the given size.

mod kernel;
pub mod rule;
