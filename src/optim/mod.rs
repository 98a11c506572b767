//! Optimizers: one folder each, with its memory rule and its kernels.

pub mod kernel;
pub mod optimizer;
pub mod rule;

pub mod adagrad;
pub mod adam;
pub mod rmsprop;
pub mod sgd;

pub use optimizer::{Adagrad, Adam, Implementation, Optimizer, RmsProp, Sgd};
pub use rule::{OptimRule, StepRecipe};
