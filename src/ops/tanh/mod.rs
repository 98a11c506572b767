//! `tanh`: Hyperbolic tangent.

mod kernel;
pub mod rule;
