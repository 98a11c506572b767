//! Which changed rows and cases are worth a line: what repeats the one before is named, not shown again.
//!
//! Invariant: what stands for a row or a case that is not shown changed by the same bytes in every figure, every category and
//! every side; only what it changed from may differ.

use std::collections::BTreeMap;

use crate::record::At;

use super::compare::{CaseChange, CaseDiff, RowChange, RowDiff, Sides};

/// A line of a case's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'a> {
    /// A row.
    Row(&'a RowDiff),
    /// Steps, the first and the last, that change as the step shown before.
    Steps(u64, u64),
    /// Micro-steps of a step that change as the micro-step shown before.
    MicroSteps(u64, u64),
    /// Changed rows, the first and the last and how many, that change as the row shown before.
    Rows(At, At, usize),
    /// Rows one after the other that one version lacks.
    OneSided {
        /// `gone` or `new`.
        what: &'static str,
        /// The first.
        first: At,
        /// The last.
        last: At,
        /// How many.
        rows: usize,
    },
}

/// Folds steps, and micro-steps inside a step, that change as the one before, and rows that one version lacks.
#[must_use]
pub fn fold_rows(rows: &[RowDiff]) -> Vec<Line<'_>> {
    let runs = rows.chunk_by(|a, b| lacking(a) == lacking(b));
    runs.flat_map(|run| match (lacking(&run[0]), run) {
        (Some(what), [first, .., last]) => vec![Line::OneSided { what, first: first.at, last: last.at, rows: run.len() }],
        (_, run) => fold_changes(run),
    })
    .collect()
}

/// What becomes of a row that one version lacks.
fn lacking(row: &RowDiff) -> Option<&'static str> {
    match row.sides {
        Sides::Before => Some("gone"),
        Sides::After => Some("new"),
        Sides::Both(_) => None,
    }
}

fn fold_changes(rows: &[RowDiff]) -> Vec<Line<'_>> {
    let steps: Vec<&[RowDiff]> = rows.chunk_by(|a, b| a.at.step == b.at.step).collect();
    fold(
        &steps,
        |r| r.at.step,
        |a, b| a.at.micro_step == b.at.micro_step,
        Line::Steps,
        |step| {
            let micro_steps: Vec<&[RowDiff]> = step.chunk_by(|a, b| a.at.micro_step == b.at.micro_step).collect();
            fold(&micro_steps, |r| r.at.micro_step, |_, _| true, Line::MicroSteps, fold_phases)
        },
    )
}

/// Folds rows that change as the one before, where it is worth a line.
fn fold_phases(rows: &[RowDiff]) -> Vec<Line<'_>> {
    let runs = rows.chunk_by(|a, b| Bytes::of(a) == Bytes::of(b));
    runs.flat_map(|run| match run {
        [shown, first, _, .., last] | [shown, first, last] => vec![Line::Row(shown), Line::Rows(first.at, last.at, run.len() - 1)],
        run => run.iter().map(Line::Row).collect(),
    })
    .collect()
}

fn fold<'a>(
    chunks: &[&'a [RowDiff]],
    number: impl Fn(&RowDiff) -> u64,
    same_place: impl Fn(&RowDiff, &RowDiff) -> bool,
    folded: impl Fn(u64, u64) -> Line<'a>,
    show: impl Fn(&'a [RowDiff]) -> Vec<Line<'a>>,
) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let mut i = 0;
    while i < chunks.len() {
        let shown = chunks[i];
        lines.extend(show(shown));
        let repeats = |chunk: &[RowDiff]| {
            chunk.len() == shown.len()
                && shown.iter().zip(chunk).all(|(a, b)| a.at.phase == b.at.phase && same_place(a, b) && Bytes::of(a) == Bytes::of(b))
        };
        let mut last = i;
        while last + 1 < chunks.len() && number(&chunks[last + 1][0]) == number(&chunks[last][0]) + 1 && repeats(chunks[last + 1]) {
            last += 1;
        }
        if last > i {
            lines.push(folded(number(&chunks[i + 1][0]), number(&chunks[last][0])));
        }
        i = last + 1;
    }
    lines
}

/// What of a row's change makes it the same as another's.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bytes {
    /// 0 before only, 1 after only, 2 both: of the row, its measured side and its predicted side.
    sides: [Option<u8>; 3],
    /// By how much: measured, predicted, categories.
    bytes: Vec<(usize, i128)>,
    status: Option<(&'static str, &'static str)>,
}

impl Bytes {
    fn of(row: &RowDiff) -> Self {
        fn kind<T>(sides: &Sides<T>) -> u8 {
            match sides {
                Sides::Before => 0,
                Sides::After => 1,
                Sides::Both(_) => 2,
            }
        }
        let mut all = Self { sides: [Some(kind(&row.sides)), None, None], bytes: Vec::new(), status: None };
        if let Sides::Both(RowChange { measured, predicted, categories, status }) = &row.sides {
            for (i, side) in [measured, predicted].into_iter().enumerate() {
                all.sides[i + 1] = side.as_ref().map(kind);
                if let Some(Sides::Both(figures)) = side {
                    let changes = figures.0.iter().enumerate().filter_map(|(j, c)| Some((3 * i + j, (*c)?.bytes())));
                    all.bytes.extend(changes);
                }
            }
            all.bytes.extend(categories.iter().map(|(c, change)| (6 + *c as usize, change.bytes())));
            all.status = status.map(|(a, b)| (a.name(), b.name()));
        }
        all
    }
}

/// Cases with the same change, in the order of the first of each group.
#[must_use]
pub fn group_cases(cases: &[CaseDiff]) -> Vec<Vec<&CaseDiff>> {
    let mut groups: Vec<Vec<&CaseDiff>> = Vec::new();
    let mut known: BTreeMap<Kind, usize> = BTreeMap::new();
    for case in cases {
        let place = *known.entry(Kind::of(case)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(case);
    }
    groups
}

/// What of a case's change makes it the same as another's.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Before,
    After,
    NotComparable(Vec<(&'static str, String, String)>),
    Rows(Vec<(At, Bytes)>),
}

impl Kind {
    fn of(case: &CaseDiff) -> Self {
        match &case.sides {
            Sides::Before => Self::Before,
            Sides::After => Self::After,
            Sides::Both(CaseChange::NotComparable { settings, .. }) => {
                Self::NotComparable(settings.iter().map(|s| (s.name, s.before.clone(), s.after.clone())).collect())
            }
            Sides::Both(CaseChange::Rows { rows, .. }) => Self::Rows(rows.iter().map(|r| (r.at, Bytes::of(r))).collect()),
        }
    }
}
