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
    /// What the machine showed when it ended.
    pub load: Load,
}

/// What the time of a micro-step went to, in seconds. Preparing goes on beside the rest, in threads of its own, and a GPU computes beside
/// them all. Points in time count from the moment at which the loop began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepTimes {
    /// Waiting for a batch: this one, or the next where that is copied ahead.
    pub waiting: f64,
    /// Reading and preparing this batch, all workers added up.
    pub preparing: f64,
    /// Asking for a batch to be copied to the device, and waiting for that where it is not page-locked.
    pub copying: f64,
    /// Reading and telling the loss, where it is logged.
    pub logging: f64,
    /// Taking the state out of the run, and waiting for the save before.
    pub saving: f64,
    /// When the micro-step began.
    pub began: f64,
    /// When the device began to compute it and when it was done, by its own clock: on a GPU's stream, from when the batch is there to when
    /// the last update is done. What the stream waits in between, for kernels that the program has not asked for yet, counts. `None` where
    /// that was not measured.
    pub computing: Option<(f64, f64)>,
    /// When the first of its samples was begun, and the last was done; `None` where nothing is prepared.
    pub prepared: Option<(f64, f64)>,
}

impl StepTimes {
    /// How long the device computed, where that was measured.
    #[must_use]
    pub fn busy(&self) -> Option<f64> {
        self.computing.map(|(from, to)| to - from)
    }
}

/// What the machine shows at a moment; each figure where somebody gives it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// The share of the time in which the GPU ran a kernel, from 0 to 1, as NVML tells.
    pub utilisation: Option<f64>,
    /// Bytes that all processes hold on the GPU as NVML tells; on the host, that this process holds.
    pub memory: Option<u64>,
    /// What the GPU draws, in watts.
    pub power: Option<f64>,
    /// Processor time of this process for each second, in seconds: 2 keeps two cores busy.
    pub cpu: Option<f64>,
}
