//! `sgd`: stochastic gradient descent, with momentum.

pub mod rule;
