//! The plan: operators over values, and the loop's settings. It names no tensor; the predictor interprets its rules and the
//! executor runs its kernels, each in a walk of its own.
//!
//! Invariant: a value is produced once (by one step, or as state, input or target) and dropped at most once. A `Drop` is where
//! Python's last variable for it goes out of scope; autograd may keep the storage longer.

use super::lowering::Numerics;
use crate::meta::{DType, TensorMeta};
use crate::ops::Operator;
use crate::optim::Optimizer;

/// A tensor of the program, by number: an index into [`Program::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A layer of the file, by number: an index into [`Plan::layers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerId(pub u32);

impl LayerId {
    /// The index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A layer as reports name it, e.g. `3.residual.0.linear`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Path of indices and names from the top.
    pub path: String,
}

/// What a tensor of the model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    /// Trained: requires a gradient.
    Parameter,
    /// Kept but not trained: running statistics.
    Buffer,
}

/// How `init = "random"` fills a tensor of the model. Values never change memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Uniform in ±bound.
    Uniform(f64),
    /// Normal with this standard deviation.
    Normal(f64),
    /// All equal.
    Constant(f64),
}

/// A parameter or buffer, in the order in which `.to(device)` moves them (which is `named_parameters`' order too).
#[derive(Debug, Clone, PartialEq)]
pub struct StateTensor {
    /// PyTorch's name, e.g. `0.weight`.
    pub name: String,
    /// Shape and type on the device.
    pub meta: TensorMeta,
    /// Parameter or buffer.
    pub kind: StateKind,
    /// How it is filled.
    pub init: Init,
    /// The layer it belongs to.
    pub layer: LayerId,
    /// Its place in a buffer that it shares with others of its module once they have all been moved.
    pub flat: Option<FlatPlace>,
}

/// A place in a buffer of parameters, which follow one another in the order of their move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatPlace {
    /// Of its first element.
    pub offset: u64,
    /// Whether it is the buffer's last to be moved: then all of them are copied into it, and the tensors moved before die.
    pub last: bool,
}

/// One step of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run an operator: an autograd node where an input requires a gradient.
    Run {
        /// Which.
        op: Operator,
        /// Its inputs, parameters among them.
        inputs: Vec<ValueId>,
        /// Its outputs.
        outputs: Vec<ValueId>,
        /// The layer it comes from.
        layer: LayerId,
    },
    /// Python's last variable for this value goes out of scope.
    Drop(ValueId),
    /// Non-reentrant checkpoint: run `body`, keep `input`, recompute in backward up to the last tensor that the body packed.
    /// Without a tape the body just runs.
    Checkpoint {
        /// The region's argument; the caller's variable for it outlives the region.
        input: ValueId,
        /// The region. Its `result` is a value of the surrounding program.
        body: Body,
    },
}

/// A straight run of steps with one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// In order.
    pub steps: Vec<Step>,
    /// The value that the body returns.
    pub result: ValueId,
}

/// One micro-step's computation. Values `0..plan.state.len()` are the model's state.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Shape and type of every value.
    pub values: Vec<TensorMeta>,
    /// The batch.
    pub input: ValueId,
    /// The targets, where the loss has any.
    pub target: Option<ValueId>,
    /// `output = model(input)`.
    pub forward: Body,
    /// `loss = criterion(output, target)`. Under autocast the cast parameters still live here are in `autocast_cache`.
    pub criterion: Option<Body>,
    /// Values that autocast's weight cache holds until its region ends (after the criterion). A recomputation has a cache of its own.
    pub autocast_cache: Vec<ValueId>,
    /// `loss = loss / accumulation_steps`, after autocast has ended.
    pub divide: Option<Body>,
}

impl Program {
    /// Shape and type of a value.
    #[must_use]
    pub fn meta(&self, value: ValueId) -> &TensorMeta {
        &self.values[value.index()]
    }
}

/// What the script does with the loss after each micro-step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepLoss {
    /// Nothing: the next loss replaces it.
    None,
    /// `losses.append(loss.item())`.
    Item,
    /// `losses.append(loss)`.
    List,
    /// `total = total + loss`.
    Total,
}

/// As written in the file, for the CSV; the program already holds its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointing {
    /// None.
    Off,
    /// Every top-level layer.
    EveryLayer,
    /// `checkpoint_sequential` with this many segments.
    Segments(u64),
}

/// Settings of the reference loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loop {
    /// Samples a micro-step.
    pub batch_size: u64,
    /// Type of parameters and activations.
    pub dtype: DType,
    /// Autocast's type, where on.
    pub amp: Option<DType>,
    /// Optimizer steps.
    pub steps: u64,
    /// Micro-steps a step.
    pub accumulation_steps: u64,
    /// For the CSV.
    pub checkpointing: Checkpointing,
    /// Inference: no tape, no loss rows, no optimizer.
    pub no_grad: bool,
    /// Evaluation modules, loss, no backward.
    pub eval: bool,
    /// What becomes of each loss.
    pub keep_loss: KeepLoss,
    /// `empty_cache` after every step.
    pub empty_cache: bool,
    /// The optimizer; `None` in no_grad and eval.
    pub optimizer: Option<Optimizer>,
    /// `init = "reference"`: closed-form weights and batches, and each loss is read as a number.
    pub reference_init: bool,
    /// For random weights and batches.
    pub seed: u64,
    /// Compute capability of the GPU that it is for.
    pub capability: (u32, u32),
    /// Whether the next batch is copied to the device while a step runs: two sets of inputs are there from the first step on.
    pub device_prefetch: bool,
    /// Steps that a run before has done; this one goes on after them.
    pub done: u64,
}

impl Loop {
    /// What is computed in, and on what.
    #[must_use]
    pub const fn numerics(&self) -> Numerics {
        Numerics { dtype: self.dtype, amp: self.amp, capability: self.capability }
    }

    /// Whether backward runs.
    #[must_use]
    pub const fn trains(&self) -> bool {
        !self.no_grad && !self.eval
    }

    /// Whether a gradient scaler takes part: autocast to f16, while training.
    #[must_use]
    pub fn has_scaler(&self) -> bool {
        self.trains() && self.amp == Some(DType::F16)
    }
}

/// A whole training run of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Layers by number.
    pub layers: Vec<Layer>,
    /// Parameters and buffers in the order of their move to the device.
    pub state: Vec<StateTensor>,
    /// The distinct micro-step programs (more than one only where `lengths` vary).
    pub programs: Vec<Program>,
    /// Which program each step runs: an index into `programs`; one entry for all steps where they are the same.
    pub schedule: Vec<usize>,
    /// Vocabulary size of token inputs; `None` for features.
    pub vocabulary: Option<u64>,
    /// The loop.
    pub settings: Loop,
}

impl Plan {
    /// The program that optimizer step `step` (from 1) runs.
    #[must_use]
    pub fn program(&self, step: u64) -> &Program {
        &self.programs[self.program_index(step)]
    }

    /// The index of that program.
    #[must_use]
    pub fn program_index(&self, step: u64) -> usize {
        let index = usize::try_from(step - 1).unwrap_or(usize::MAX).min(self.schedule.len() - 1);
        self.schedule[index]
    }

    /// Makes it as many steps long. Where lengths vary they start over after the last.
    pub fn train_for(&mut self, steps: u64) {
        if self.schedule.len() > 1 {
            let steps = usize::try_from(steps).unwrap_or(usize::MAX);
            self.schedule = self.schedule.iter().copied().cycle().take(steps).collect();
        }
        self.settings.steps = steps;
    }

    /// The state whose buffer is complete once tensor number `last` has been moved: those up to it that share one with it.
    #[must_use]
    pub fn flat_until(&self, last: usize) -> std::ops::Range<usize> {
        if !self.state[last].flat.is_some_and(|f| f.last) {
            return last..last;
        }
        let first = (0..last).rev().take_while(|&i| self.state[i].flat.is_some_and(|f| !f.last)).last().unwrap_or(last);
        first..last + 1
    }
}

/// What one case does.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Trains, or infers.
    Train(Box<Plan>),
    /// Follows an `[allocations]` script.
    Script(super::script::Script),
}
