//! One case as reports see it: how it is called, and its rows, measured beside predicted.
//!
//! Invariant: a joined row has at least one side; its sides stand at the same point of the loop.

use std::collections::BTreeMap;

use crate::meta::DType;
use crate::record::{At, Measured, Memory, Predicted, Status};

/// The first columns of a case's rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels {
    /// The sweep point, `key=value` joined by one space in axis order; empty without a sweep.
    pub case: String,
    /// What a training case is; `None` for `[allocations]`, which leaves those columns empty.
    pub training: Option<TrainingLabels>,
}

/// What names a training case, as the CSV writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingLabels {
    /// Samples a micro-step.
    pub batch_size: u64,
    /// Type of parameters and activations.
    pub dtype: DType,
    /// The optimizer's name.
    pub optimizer: Option<&'static str>,
    /// Micro-steps a step.
    pub accumulation_steps: u64,
    /// `false`, `true` or `segments=N`.
    pub checkpointing: String,
    /// Inference.
    pub no_grad: bool,
}

/// One point of the loop as measured and as predicted. A side is absent where that side's run had ended before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// Where.
    pub at: At,
    /// What the executor measured.
    pub measured: Option<Measured>,
    /// What the predictor foresaw.
    pub predicted: Option<Predicted>,
}

impl Joined {
    /// The measured status, or the predicted one where nothing was measured.
    #[must_use]
    pub fn status(&self) -> Status {
        match (&self.measured, &self.predicted) {
            (Some(m), _) => m.status,
            (None, Some(p)) => p.status,
            (None, None) => unreachable!("a joined row has at least one side"),
        }
    }

    /// The measured figures, or the predicted ones where nothing was measured.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.measured.map(|m| m.memory).or(self.predicted.map(|p| p.memory)).unwrap_or_default()
    }

    /// Whether both sides are there and agree in every byte and in how the phase ended.
    #[must_use]
    pub fn exact(&self) -> bool {
        matches!((&self.measured, &self.predicted), (Some(m), Some(p)) if m.memory == p.memory && m.status == p.status)
    }
}

/// A case with its rows in the order of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseReport {
    /// Its names.
    pub labels: Labels,
    /// Its rows.
    pub rows: Vec<Joined>,
    /// Rows that are not among them, of steps that are in all figures as the one before them and after which at least two more such follow.
    pub left_out: usize,
}

impl CaseReport {
    /// The row with the highest peak, the first of them where several share it.
    #[must_use]
    pub fn peak(&self) -> Option<&Joined> {
        self.rows.iter().rev().max_by_key(|r| r.memory().peak)
    }

    /// Whether the case ran out of memory.
    #[must_use]
    pub fn ran_out(&self) -> bool {
        self.rows.iter().any(|r| r.measured.is_some_and(|m| m.status == Status::Oom))
    }
}

/// Joins the two sides by their place in the loop. Where one side ended earlier, the rest of the other stands alone.
#[must_use]
pub fn join(measured: &[Measured], predicted: &[Predicted]) -> Vec<Joined> {
    let place: BTreeMap<At, usize> = predicted.iter().enumerate().map(|(i, p)| (p.at, i)).collect();
    let mut rows = Vec::with_capacity(measured.len().max(predicted.len()));
    let mut next = 0;
    let alone = |p: &Predicted| Joined { at: p.at, measured: None, predicted: Some(*p) };
    for m in measured {
        let partner = place.get(&m.at).copied().filter(|&i| i >= next);
        if let Some(i) = partner {
            rows.extend(predicted[next..i].iter().map(alone));
            next = i + 1;
        }
        rows.push(Joined { at: m.at, measured: Some(*m), predicted: partner.map(|i| predicted[i]) });
    }
    rows.extend(predicted[next..].iter().map(alone));
    rows
}
