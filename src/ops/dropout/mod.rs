//! `dropout`: Dropout: zeroes with probability `p` and scales the rest. The input itself where not training or p is 0.

mod kernel;
pub mod rule;
