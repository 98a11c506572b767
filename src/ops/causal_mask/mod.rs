//! `causal_mask`: What keeps a position from seeing those behind it.

mod kernel;
pub mod rule;
