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
    /// What that time went to.
    pub times: StepTimes,
}

/// What the time of a micro-step went to, in seconds. Preparing goes on beside the rest, in threads of its own.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepTimes {
    /// Waiting for the batch.
    pub waiting: f64,
    /// Reading and preparing the batch, all workers added up.
    pub preparing: f64,
    /// Copying the batch to the device.
    pub copying: f64,
    /// The device computing, from the batch to the last update.
    pub busy: f64,
    /// Reading and telling the loss, where it is logged.
    pub logging: f64,
    /// Taking the state out of the run, and waiting for the save before.
    pub saving: f64,
}
