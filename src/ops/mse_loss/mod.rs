//! `mse_loss`: Mean squared error. Inputs: x, target.

mod kernel;
pub mod rule;
