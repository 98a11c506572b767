//! Rows: what one phase of one case held, as measured and as predicted. Neither knows the other; the report joins them.

use super::{Categories, Phase};

/// Where in the reference loop a row was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Optimizer step from 1; 0 for the model phase. In an `[allocations]` file the step's number from 1.
    pub step: u64,
    /// Micro-step from 1; 0 for the model phase and in `[allocations]` files.
    pub micro_step: u64,
    /// The phase that had just ended.
    pub phase: Phase,
}

/// The allocator's three figures at a row, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// `torch.cuda.memory_allocated()` at the end of the phase.
    pub allocated: u64,
    /// `torch.cuda.max_memory_allocated()` since the row before.
    pub peak: u64,
    /// `torch.cuda.memory_reserved()` at the end of the phase.
    pub reserved: u64,
}

/// Whether the phase ended or memory ran out in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The phase ended.
    Ok,
    /// Out of memory in this phase: the case's last row.
    Oom,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 2] = [Self::Ok, Self::Oom];

    /// The CSV's `status` column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Oom => "oom",
        }
    }
}

/// A row as the executor measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Where.
    pub at: At,
    /// How much.
    pub memory: Memory,
    /// By role; adds up to `memory.allocated`.
    pub categories: Categories,
    /// How the phase ended.
    pub status: Status,
}

/// A row as the predictor foresaw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predicted {
    /// Where.
    pub at: At,
    /// How much.
    pub memory: Memory,
    /// How the phase will end.
    pub status: Status,
}
