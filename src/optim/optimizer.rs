//! Optimizers by name and setting, as PyTorch's constructors take them.

use super::rule::OptimRule;

/// How PyTorch runs the update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Implementation {
    /// A Python loop over parameters.
    ForLoop,
    /// Multi-tensor kernels over all parameters at once: PyTorch's default on CUDA.
    Foreach,
    /// One kernel for the whole update.
    Fused,
}

/// Stochastic gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f64,
    /// Momentum factor; 0 keeps no buffer.
    pub momentum: f64,
    /// Nesterov's variant.
    pub nesterov: bool,
    /// Weight decay (L2 penalty).
    pub weight_decay: f64,
    /// How the update runs.
    pub implementation: Implementation,
}

/// Adam, or AdamW where `decoupled`. Betas (0.9, 0.999), eps 1e-8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// AdamW: the decay acts on the parameter, not on the gradient.
    pub decoupled: bool,
    /// Learning rate.
    pub lr: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Keep the maximum of the second moment.
    pub amsgrad: bool,
    /// How the update runs.
    pub implementation: Implementation,
}

/// Adagrad. eps 1e-10.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adagrad {
    /// Learning rate.
    pub lr: f64,
    /// How the update runs.
    pub implementation: Implementation,
}

/// RMSprop. alpha 0.99, eps 1e-8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsProp {
    /// Learning rate.
    pub lr: f64,
    /// Momentum factor; 0 keeps no buffer.
    pub momentum: f64,
    /// Normalise by an estimate of the variance.
    pub centered: bool,
    /// How the update runs.
    pub implementation: Implementation,
}

/// An optimizer with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // each variant's struct is documented
pub enum Optimizer {
    Sgd(Sgd),
    Adam(Adam),
    Adagrad(Adagrad),
    RmsProp(RmsProp),
}

impl Optimizer {
    /// The optimizer's memory rule.
    #[must_use]
    pub fn rule(&self) -> &dyn OptimRule {
        match self {
            Self::Sgd(o) => o,
            Self::Adam(o) => o,
            Self::Adagrad(o) => o,
            Self::RmsProp(o) => o,
        }
    }

    /// How the update runs.
    #[must_use]
    pub const fn implementation(&self) -> Implementation {
        match self {
            Self::Sgd(o) => o.implementation,
            Self::Adam(o) => o.implementation,
            Self::Adagrad(o) => o.implementation,
            Self::RmsProp(o) => o.implementation,
        }
    }

    /// The name in the CSV's `optimizer` column and in experiment files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sgd(_) => "sgd",
            Self::Adam(a) => {
                if a.decoupled {
                    "adamw"
                } else {
                    "adam"
                }
            }
            Self::Adagrad(_) => "adagrad",
            Self::RmsProp(_) => "rmsprop",
        }
    }
}
