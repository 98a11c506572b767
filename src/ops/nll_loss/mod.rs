//! `nll_loss`: Mean negative log likelihood. Inputs: log-probabilities (rows, classes), class indices (rows).

mod kernel;
pub mod rule;
