//! `tanh`: Hyperbolic tangent.

pub mod rule;
