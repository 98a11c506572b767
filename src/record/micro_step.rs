//! What a micro-step did with time and loss. Unlike rows it differs from run to run.

/// One micro-step of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MicroStep {
    /// Optimizer step from 1.
    pub step: u64,
    /// Micro-step from 1.
    pub micro_step: u64,
    /// The loss after division by `accumulation_steps`; `None` where nobody computed one.
    pub loss: Option<f64>,
    /// Whether the gradient scaler skipped the optimizer's step, on the step's last micro-step.
    pub skipped: bool,
    /// Wall time of the micro-step, with the optimizer's part in the last one.
    pub seconds: f64,
}
