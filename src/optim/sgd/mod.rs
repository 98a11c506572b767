//! `sgd`: stochastic gradient descent, with momentum.

pub(super) mod kernel;
pub mod rule;
