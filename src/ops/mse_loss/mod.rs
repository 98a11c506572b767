//! `mse_loss`: Mean squared error. Inputs: x, target.

pub mod rule;
