//! The rows of a case without those of steps that only repeat earlier ones: of a training that goes on and on the same, a handful.
//!
//! Invariant: what is left out is exactly what it is said to repeat, but for the number of the step.

use std::ops::Range;

use crate::record::{At, Memory, Phase, Predicted, Status};

/// A prediction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreseen {
    rows: Vec<Predicted>,
    repeated: Option<Repeated>,
}

/// Steps that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Repeated {
    /// The rows that they repeat, behind the last of which they belong.
    rows: Range<usize>,
    /// So many steps have these rows.
    steps: u64,
    /// So often they come again.
    times: u64,
}

impl Foreseen {
    /// Adds a row.
    pub(super) fn push(&mut self, row: Predicted) {
        self.rows.push(row);
    }

    /// How many rows are written out so far.
    pub(super) fn written(&self) -> usize {
        self.rows.len()
    }

    /// Leaves out steps that follow: those whose rows are written out from `first` on, so many steps, so often.
    ///
    /// # Panics
    /// Something was left out before.
    pub(super) fn repeat(&mut self, first: usize, steps: u64, times: u64) {
        let rows = first..self.rows.len();
        let before = self.repeated.replace(Repeated { rows, steps, times });
        assert!(before.is_none(), "steps are left out in one place");
    }

    /// Every row.
    #[must_use]
    pub fn all(self) -> Vec<Predicted> {
        let Some(Repeated { rows, steps, times }) = self.repeated else { return self.rows };
        let again = (1..=times).flat_map(|time| {
            let later = move |row: &Predicted| Predicted { at: At { step: row.at.step + time * steps, ..row.at }, ..*row };
            self.rows[rows.clone()].iter().map(later)
        });
        self.rows[..rows.end].iter().copied().chain(again).chain(self.rows[rows.end..].iter().copied()).collect()
    }

    /// The rows that are written out: each figure that there is stands in one of them, first where it first was.
    #[must_use]
    pub fn once(&self) -> &[Predicted] {
        &self.rows
    }

    /// The rows that are written out, and how many are left out, where every step left out is in all figures as the one before it; else
    /// every row, and none.
    #[must_use]
    pub fn level(self) -> (Vec<Predicted>, usize) {
        let Some(repeated) = &self.repeated else { return (self.rows, 0) };
        let figures = |row: &Predicted| -> (u64, Phase, Memory, Status) { (row.at.micro_step, row.at.phase, row.memory, row.status) };
        let mut steps = self.rows[repeated.rows.clone()].chunk_by(|a, b| a.at.step == b.at.step);
        let first = steps.next().unwrap_or_default();
        if steps.all(|step| step.iter().map(figures).eq(first.iter().map(figures))) {
            let left_out = repeated.rows.len() as u64 * repeated.times;
            (self.rows, usize::try_from(left_out).expect("rows are counted in what the machine addresses"))
        } else {
            (self.all(), 0)
        }
    }
}
