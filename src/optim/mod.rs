//! Optimizers: one folder each, with its memory rule and its kernels.

pub mod optimizer;
pub mod rule;

pub use optimizer::{Adagrad, Adam, Implementation, Optimizer, RmsProp, Sgd};
pub use rule::{OptimRule, StepRecipe};
