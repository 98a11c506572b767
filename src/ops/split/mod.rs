//! `split`: Parts of the last dimension, one after another.

mod kernel;
pub mod rule;
