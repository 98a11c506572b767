//! `--fail-on`: how much a figure may grow before a comparison counts as failed.
//!
//! A threshold bounds growth; what shrank never fails. What could not be held against anything does: a case that is gone, or was
//! run with other settings, or newly runs out of memory, would else slip through the check that it was to pass.
//! Invariant: comparisons are exact, in integers; a figure exactly on its threshold passes.

use std::str::FromStr;

use crate::record::{At, Status};

use super::super::number::{bytes, scaled};
use super::compare::{CaseChange, Change, Diff, Figure, RowChange, Side, Sides};

/// `peak:1%`, `reserved:64MiB`, `allocated:0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threshold {
    /// What is bounded.
    pub figure: Figure,
    limit: Limit,
    text: String,
}

/// How much growth passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Bytes(u64),
    /// Millionths of one per cent.
    Percent(u64),
}

const PER_PERCENT: u64 = 1_000_000;

/// Text that is no threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a threshold: {why}")]
pub struct ThresholdError {
    text: String,
    why: &'static str,
}

impl Threshold {
    /// Whether `change` grows by more than it may.
    #[must_use]
    pub fn is_exceeded(&self, change: Change) -> bool {
        let Ok(growth) = u128::try_from(change.bytes()) else { return false };
        match self.limit {
            Limit::Bytes(bytes) => growth > u128::from(bytes),
            Limit::Percent(millionths) => growth * u128::from(100 * PER_PERCENT) > u128::from(millionths) * u128::from(change.before),
        }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let wrong = |why| ThresholdError { text: text.to_string(), why };
        let (figure, limit) = text.split_once(':').ok_or(wrong("write FIGURE:LIMIT, as in peak:1% or reserved:64MiB"))?;
        let figure =
            Figure::ALL.into_iter().find(|f| f.name() == figure.trim()).ok_or(wrong("the figure is one of allocated, peak, reserved"))?;
        let limit = limit.trim();
        let limit = match limit.strip_suffix('%') {
            Some(number) => Limit::Percent(scaled(number.trim(), PER_PERCENT).ok_or(wrong("the per cent are a number of 0 or more"))?),
            None => Limit::Bytes(bytes(limit).ok_or(wrong("the limit is per cent, or bytes with a unit: B, KiB, MiB, GiB, KB, MB, GB"))?),
        };
        Ok(Self { figure, limit, text: text.to_string() })
    }
}

/// A figure over its threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over<'a> {
    /// The threshold.
    pub threshold: &'a Threshold,
    /// The experiment.
    pub experiment: &'a str,
    /// The case.
    pub case: &'a str,
    /// The row.
    pub at: At,
    /// Its change.
    pub change: Change,
}

/// What thresholds say about a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict<'a> {
    /// What grew too much.
    pub over: Vec<Over<'a>>,
    /// What could not be held against anything, in words.
    pub unchecked: Vec<String>,
}

impl<'a> Verdict<'a> {
    /// Holds `diff` against `thresholds`.
    #[must_use]
    pub fn of(diff: &'a Diff, thresholds: &'a [Threshold]) -> Self {
        let mut verdict = Self::default();
        for experiment in &diff.experiments {
            let cases = match &experiment.sides {
                Sides::Before => {
                    verdict.unchecked.push(format!("{} is gone", experiment.name));
                    continue;
                }
                Sides::After => continue,
                Sides::Both(cases) => cases,
            };
            for case in cases {
                let name = super::words::case_name(&experiment.name, &case.label);
                match &case.sides {
                    Sides::After => {}
                    Sides::Before => verdict.unchecked.push(format!("{name} is gone")),
                    Sides::Both(CaseChange::NotComparable { .. }) => verdict.unchecked.push(format!("{name} is not comparable")),
                    Sides::Both(CaseChange::Rows { rows, .. }) => {
                        let mut gone = 0;
                        for row in rows {
                            match &row.sides {
                                Sides::After => {}
                                Sides::Before => gone += 1,
                                Sides::Both(change) => {
                                    if let Some((_, Status::Oom)) = change.status {
                                        let at = super::words::place(row.at);
                                        verdict.unchecked.push(format!("{name} runs out of memory in {at}"));
                                    }
                                    let found = exceeded(change, experiment.side, thresholds);
                                    gone += usize::from(found.is_none());
                                    verdict.over.extend(found.into_iter().flatten().map(|(threshold, change)| Over {
                                        threshold,
                                        experiment: &experiment.name,
                                        case: &case.label,
                                        at: row.at,
                                        change,
                                    }));
                                }
                            }
                        }
                        if gone > 0 {
                            verdict.unchecked.push(format!("{name}: {} gone", super::words::count(gone, "row")));
                        }
                    }
                }
            }
        }
        verdict
    }

    /// Whether everything was held against its threshold, and nothing is over it.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.over.is_empty() && self.unchecked.is_empty()
    }
}

/// The thresholds that a row exceeds; `None` where the figures that count are gone.
fn exceeded<'a>(change: &RowChange, side: Side, thresholds: &'a [Threshold]) -> Option<Vec<(&'a Threshold, Change)>> {
    let side = match side {
        Side::Measured => &change.measured,
        Side::Predicted => &change.predicted,
    };
    match side {
        Some(Sides::Before) => None,
        None | Some(Sides::After) => Some(Vec::new()),
        Some(Sides::Both(figures)) => {
            Some(thresholds.iter().filter_map(|t| figures.get(t.figure).filter(|c| t.is_exceeded(*c)).map(|c| (t, c))).collect())
        }
    }
}
