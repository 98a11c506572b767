//! What changed between two versions of results, as data.
//!
//! Experiments pair by name, cases by their sweep point, rows by their place in the loop; order in the files plays no part. A
//! figure is compared where both versions of an experiment have it: a PyTorch script measures and predicts nothing, `runner
//! predict` measures nothing. Cases whose settings differ are not compared, however alike their rows are.
//! Invariant: an experiment, a case or a row is listed exactly if something about it changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{At, Categories, Category, Memory, Status};
pub use crate::report::figure::Figure;
use crate::report::read::{self, Case, ReadError, Results, Row};
use crate::report::source::Files;

/// A figure before and after, in bytes; the two differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// In the older version.
    pub before: u64,
    /// In the newer version.
    pub after: u64,
}

impl Change {
    /// The change from `before` to `after`; `None` where there is none.
    #[must_use]
    pub fn new(before: u64, after: u64) -> Option<Self> {
        (before != after).then_some(Self { before, after })
    }

    /// After − before.
    #[must_use]
    pub fn bytes(self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    /// The same in per cent of before; `None` where before was 0.
    #[must_use]
    pub fn percent(self) -> Option<f64> {
        (self.before > 0).then(|| self.bytes() as f64 / self.before as f64 * 100.0)
    }
}

/// Something that both versions may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sides<T> {
    /// Only the older version has it.
    Before,
    /// Only the newer version has it.
    After,
    /// Both have it; what changed.
    Both(T),
}

/// A side of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the columns'
pub enum Side {
    Measured,
    Predicted,
}

/// The three figures of one side of a row, those that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures(pub [Option<Change>; 3]);

impl Figures {
    /// The change of one figure.
    #[must_use]
    pub fn get(&self, figure: Figure) -> Option<Change> {
        self.0[figure as usize]
    }

    fn between(before: &Memory, after: &Memory) -> Self {
        Self(Figure::ALL.map(|f| Change::new(f.of(before), f.of(after))))
    }
}

/// What changed in a row that both versions have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// Of what was measured; `None` where nothing changed.
    pub measured: Option<Sides<Figures>>,
    /// Of what was predicted.
    pub predicted: Option<Sides<Figures>>,
    /// The categories that moved, in the columns' order.
    pub categories: Vec<(Category, Change)>,
    /// How the phase ended, before and after.
    pub status: Option<(Status, Status)>,
}

/// A changed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDiff {
    /// Where in the loop.
    pub at: At,
    /// What changed.
    pub sides: Sides<RowChange>,
}

/// A setting before and after, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// The column.
    pub name: &'static str,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// What became of a case that both versions have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseChange {
    /// It was run with other settings. The highest peaks are told, and no more is made of them.
    NotComparable {
        /// The settings.
        settings: Vec<SettingChange>,
        /// The highest peak of all rows before and after.
        peak: (u64, u64),
    },
    /// Rows changed.
    Rows {
        /// The highest peak of all rows, where it changed; nothing where only one version ran to its end.
        peak: Option<Change>,
        /// How the case ended before and after, where that differs.
        end: Option<(Status, Status)>,
        /// The changed rows, in the order of the loop.
        rows: Vec<RowDiff>,
    },
}

/// A changed case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseDiff {
    /// The sweep point; empty without a sweep.
    pub label: String,
    /// What changed.
    pub sides: Sides<CaseChange>,
    /// How many rows the case has, in the version that has more.
    pub rows: usize,
}

/// A changed experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentDiff {
    /// Its name: the path inside the folder without `.csv`.
    pub name: String,
    /// The changed cases.
    pub sides: Sides<Vec<CaseDiff>>,
    /// The side of a row that peaks and thresholds go by: what was measured, where both versions measured.
    pub side: Side,
    /// Whether predictions were compared beside what was measured.
    pub both_sides: bool,
    /// How many cases there are in either version.
    pub cases: usize,
}

/// How much there was in either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // they count what they are called
pub struct Counts {
    pub experiments: usize,
    pub cases: usize,
    pub rows: usize,
}

/// What changed between two versions of results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// What the older version is called.
    pub before: String,
    /// What the newer version is called.
    pub after: String,
    /// The changed experiments, by name.
    pub experiments: Vec<ExperimentDiff>,
    /// What there was to compare, changed or not.
    pub compared: Counts,
    /// What a reader has to know about the comparison.
    pub notes: Vec<String>,
}

impl Diff {
    /// Whether nothing changed.
    #[must_use]
    pub fn same(&self) -> bool {
        self.experiments.is_empty()
    }
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum DiffError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("there are no results in {before} and none in {after}")]
    NoResults { before: String, after: String },
    #[error("nothing to compare: {before} has only {has} figures and {after} has none of them")]
    NothingShared { before: String, after: String, has: &'static str },
}

/// Compares two versions; `before` and `after` are what they are called.
///
/// # Errors
/// [`DiffError`] where a file is not results, or there is nothing that both have.
pub fn compare(before: (&str, &Files), after: (&str, &Files)) -> Result<Diff, DiffError> {
    let (before_name, before) = before;
    let (after_name, after) = after;
    if before.is_empty() && after.is_empty() {
        return Err(DiffError::NoResults { before: before_name.to_string(), after: after_name.to_string() });
    }
    let mut diff = Diff { before: before_name.to_string(), after: after_name.to_string(), ..Diff::default() };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let sides = (before.get(name), after.get(name));
        let old = sides.0.map(|f| read::parse(&f.shown, &f.bytes)).transpose()?;
        let new = match sides {
            // The reader is most of the work, and most files of a folder did not change.
            (Some(old_file), Some(new_file)) if old_file.bytes == new_file.bytes => old.clone(),
            (_, new_file) => new_file.map(|f| read::parse(&f.shown, &f.bytes)).transpose()?,
        };
        for (file, results) in [(sides.0, &old), (sides.1, &new)] {
            if let (Some(file), Some(results)) = (file, results)
                && !results.unknown.is_empty()
            {
                diff.notes.push(format!("{}: not compared: {}", file.shown, results.unknown.join(", ")));
            }
        }
        let one_sided = |results: &Results| {
            let side = if results.rows().any(|r| r.measured.is_some()) { Side::Measured } else { Side::Predicted };
            ExperimentDiff { name: name.clone(), sides: Sides::Before, side, both_sides: false, cases: results.cases.len() }
        };
        let mut changed = None;
        match (&old, &new) {
            (Some(old), Some(new)) => {
                let shared = Shared::of(old, new);
                if let (true, Some((old_file, new_file))) = (shared.nothing(), sides.0.zip(sides.1)) {
                    let has = if old.rows().any(|r| r.measured.is_some()) { "measured" } else { "predicted" };
                    return Err(DiffError::NothingShared { before: old_file.shown.clone(), after: new_file.shown.clone(), has });
                }
                let cases = shared.cases(&old.cases, &new.cases);
                if !cases.is_empty() {
                    changed = Some(ExperimentDiff {
                        name: name.clone(),
                        cases: old.cases.len() + cases.iter().filter(|c| c.sides == Sides::After).count(),
                        sides: Sides::Both(cases),
                        side: shared.side(),
                        both_sides: shared.measured && shared.predicted,
                    });
                }
            }
            (Some(old), None) => changed = Some(one_sided(old)),
            (None, Some(new)) => changed = Some(ExperimentDiff { sides: Sides::After, ..one_sided(new) }),
            (None, None) => {}
        }
        let most = |of: fn(&Results) -> usize| old.as_ref().map_or(0, of).max(new.as_ref().map_or(0, of));
        diff.compared.experiments += 1;
        diff.compared.cases += changed.as_ref().map_or_else(|| most(|r| r.cases.len()), |c| c.cases);
        diff.compared.rows += most(|r| r.rows().count());
        diff.experiments.extend(changed);
    }
    Ok(diff)
}

/// What both versions of an experiment have.
#[derive(Debug, Clone, Copy)]
struct Shared {
    measured: bool,
    predicted: bool,
    categories: bool,
}

impl Shared {
    fn of(before: &Results, after: &Results) -> Self {
        let both = |has: fn(&Row) -> bool| before.rows().any(has) && after.rows().any(has);
        // A file without rows lacks nothing: its cases are absent, not its figures.
        let empty = before.cases.is_empty() || after.cases.is_empty();
        Self {
            measured: empty || both(|r| r.measured.is_some()),
            predicted: empty || both(|r| r.predicted.is_some()),
            categories: empty || both(|r| r.categories.is_some()),
        }
    }

    fn side(self) -> Side {
        if self.measured { Side::Measured } else { Side::Predicted }
    }

    fn nothing(self) -> bool {
        !self.measured && !self.predicted
    }

    /// Whether a row says anything that is compared.
    fn covers(self, row: &Row) -> bool {
        self.measured && row.measured.is_some() || self.predicted && row.predicted.is_some()
    }

    fn cases(self, before: &[Case], after: &[Case]) -> Vec<CaseDiff> {
        let by_label: BTreeMap<&str, &Case> = after.iter().map(|c| (c.label.as_str(), c)).collect();
        let known: BTreeSet<&str> = before.iter().map(|c| c.label.as_str()).collect();
        let one_sided = |case: &Case, sides| CaseDiff { label: case.label.clone(), sides, rows: case.rows.len() };
        let paired = before.iter().filter_map(|old| match by_label.get(old.label.as_str()) {
            None => Some(one_sided(old, Sides::Before)),
            Some(new) => self.case(old, new).map(|change| CaseDiff {
                label: old.label.clone(),
                sides: Sides::Both(change),
                rows: old.rows.len().max(new.rows.len()),
            }),
        });
        let added = after.iter().filter(|c| !known.contains(c.label.as_str())).map(|c| one_sided(c, Sides::After));
        paired.chain(added).collect()
    }

    fn case(self, before: &Case, after: &Case) -> Option<CaseChange> {
        let settings = before.settings.texts().into_iter().zip(after.settings.texts());
        let settings: Vec<_> =
            settings.filter(|(old, new)| old != new).map(|((name, before), (_, after))| SettingChange { name, before, after }).collect();
        if !settings.is_empty() {
            return Some(CaseChange::NotComparable { settings, peak: (self.peak(before), self.peak(after)) });
        }
        let by_place: BTreeMap<At, &Row> = after.rows.iter().map(|r| (r.at, r)).collect();
        let known: BTreeSet<At> = before.rows.iter().map(|r| r.at).collect();
        let mut rows: Vec<RowDiff> = Vec::new();
        for old in &before.rows {
            match by_place.get(&old.at) {
                Some(new) => rows.extend(self.row(old, new).map(|c| RowDiff { at: old.at, sides: Sides::Both(c) })),
                None if self.covers(old) => rows.push(RowDiff { at: old.at, sides: Sides::Before }),
                None => {}
            }
        }
        let added = after.rows.iter().filter(|r| !known.contains(&r.at) && self.covers(r));
        rows.extend(added.map(|r| RowDiff { at: r.at, sides: Sides::After }));
        // Rows of one side only were put last; the loop's order is by step and micro-step, and phases are declared in it.
        rows.sort_by_key(|r| r.at);
        let (old_end, new_end) = (before.end(), after.end());
        let end = (old_end != new_end).then_some((old_end, new_end));
        let peak = if end.is_none() { Change::new(self.peak(before), self.peak(after)) } else { None };
        (!rows.is_empty()).then_some(CaseChange::Rows { peak, end, rows })
    }

    fn peak(self, case: &Case) -> u64 {
        let side = |row: &Row| if self.measured { row.measured } else { row.predicted };
        case.rows.iter().filter_map(side).map(|m| m.peak).max().unwrap_or_default()
    }

    fn row(self, before: &Row, after: &Row) -> Option<RowChange> {
        let change = RowChange {
            measured: if self.measured { figures(before.measured, after.measured) } else { None },
            predicted: if self.predicted { figures(before.predicted, after.predicted) } else { None },
            categories: if self.categories { moved(before.categories, after.categories) } else { Vec::new() },
            status: (before.status != after.status).then_some((before.status, after.status)),
        };
        let same = change.measured.is_none() && change.predicted.is_none() && change.categories.is_empty() && change.status.is_none();
        (!same).then_some(change)
    }
}

fn figures(before: Option<Memory>, after: Option<Memory>) -> Option<Sides<Figures>> {
    match (before, after) {
        (None, None) => None,
        (Some(_), None) => Some(Sides::Before),
        (None, Some(_)) => Some(Sides::After),
        (Some(before), Some(after)) => (before != after).then(|| Sides::Both(Figures::between(&before, &after))),
    }
}

fn moved(before: Option<Categories>, after: Option<Categories>) -> Vec<(Category, Change)> {
    let Some((before, after)) = before.zip(after) else { return Vec::new() };
    Category::ALL.into_iter().filter_map(|c| Change::new(before[c], after[c]).map(|change| (c, change))).collect()
}
