//! Phases: the points of the reference loop at which memory is read.

/// What had just ended when memory was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are the reference loop's own
pub enum Phase {
    Model,
    Input,
    Forward,
    Loss,
    Backward,
    Optimizer,
    ZeroGrad,
    EmptyCache,
    /// A step of an `[allocations]` file.
    Alloc,
    Free,
    Add,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 11] = [
        Self::Model,
        Self::Input,
        Self::Forward,
        Self::Loss,
        Self::Backward,
        Self::Optimizer,
        Self::ZeroGrad,
        Self::EmptyCache,
        Self::Alloc,
        Self::Free,
        Self::Add,
    ];

    /// The name in the CSV's `phase` column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::ZeroGrad => "zero_grad",
            Self::EmptyCache => "empty_cache",
            Self::Alloc => "alloc",
            Self::Free => "free",
            Self::Add => "add",
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
