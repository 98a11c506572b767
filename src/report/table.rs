//! The table on the terminal: measured beside predicted, in MiB, with a mark that compares bytes.
//!
//! It is for reading, the CSV is for keeping: steps that repeat the step before are folded into one line, and the middle of a
//! long table is left out. Styles are written always; the stream strips them where they are not wanted.
//! Invariant: `=` stands only beside figures that agree to the byte.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::record::{Category, Status};

use super::case::{CaseReport, Joined};
use super::figure::Figure;
use super::fold::{Line, fold, shorten};
use super::number::mib;
use super::words::{count, errors, place};

pub(crate) const HEAD: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();

/// What a table is about.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// The experiment's name.
    pub name: &'a str,
    /// Its description, empty where it has none.
    pub description: &'a str,
    /// Where it ran, in words.
    pub place: &'a str,
    /// Whether it was measured, or only predicted.
    pub measured: bool,
    /// Its cases.
    pub cases: &'a [CaseReport],
    /// Of each case in a few words whether it fits; empty where that is not asked.
    pub verdicts: &'a [String],
}

/// A cell: its text and how it looks.
pub(crate) type Cell = (String, Style);

impl Table<'_> {
    /// The whole table with its summary, lines ended by `\n`.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!("{HEAD}{}{HEAD:#}", self.name);
        if !self.description.is_empty() {
            let _ = write!(text, ": {}", self.description);
        }
        let _ = writeln!(text, "\n{FAINT}{}; figures in MiB{FAINT:#}", self.place);
        let rows = match self.cases {
            [case] if case.labels.case.is_empty() => self.phases(case),
            cases => self.sweep(cases),
        };
        align(&mut text, &rows);
        let (summary, exact) = self.summary();
        let style = if exact { GOOD } else { BAD };
        let _ = writeln!(text, "{style}{summary}{style:#}");
        text
    }

    /// `predicted = measured in all 19 rows`, or where not; and whether it is the first.
    #[must_use]
    pub fn summary(&self) -> (String, bool) {
        let rows = || self.cases.iter().flat_map(|c| c.rows.iter().map(move |r| (c, r)));
        let total = self.cases.iter().map(|c| c.rows.len() + c.left_out).sum::<usize>();
        let peak = self.cases.iter().filter_map(|c| Some((c, c.peak()?))).rev().max_by_key(|(_, r)| r.memory().peak);
        let peak = peak.map_or_else(String::new, |(c, r)| format!("peak {} MiB in {}", mib(r.memory().peak), place_in(c, r)));
        let mut text = if self.measured {
            let off: Vec<_> = rows().filter(|(_, r)| !r.exact()).collect();
            match off.first() {
                None if total == 0 => "there are no rows".to_owned(),
                None => format!(
                    "predicted = measured in {}; {peak}",
                    if total == 1 { "the one row".to_owned() } else { format!("all {total} rows") }
                ),
                Some((c, r)) => {
                    format!(
                        "predicted ≠ measured in {} of {total} rows, first in {}: {}; {peak}",
                        off.len(),
                        place_in(c, r),
                        differences(r)
                    )
                }
            }
        } else {
            format!("predicted {}; {peak}", count(total, "row"))
        };
        let exact = !self.measured || rows().all(|(_, r)| r.exact());
        let mut fine = exact;
        for (case, row) in rows().filter(|(_, r)| r.status() == Status::Oom) {
            let _ = write!(text, "; out of memory in {}", place_in(case, row));
            fine = false;
        }
        (text, fine)
    }

    /// A line a phase.
    fn phases(&self, case: &CaseReport) -> Vec<Vec<Cell>> {
        let micro_steps = case.labels.training.as_ref().is_some_and(|t| t.accumulation_steps > 1);
        let peak = case.peak().map(|r| r.at);
        let mut head = vec![("step", HEAD), ("phase", HEAD)];
        self.figure_heads(&mut head);
        if self.measured {
            head.push(("  largest", HEAD));
        }
        let mut rows = vec![head.into_iter().map(|(t, s)| (t.to_string(), s)).collect()];
        for line in fold(&case.rows) {
            let row = match line {
                Line::Row(row) => row,
                Line::Note(note) => {
                    rows.push(vec![(note, FAINT)]);
                    continue;
                }
            };
            let style = match row.status() {
                Status::Oom => BAD,
                Status::Ok if peak == Some(row.at) => HEAD,
                Status::Ok => PLAIN,
            };
            let step =
                if micro_steps && row.at.step > 0 { format!("{}.{}", row.at.step, row.at.micro_step) } else { row.at.step.to_string() };
            let mut cells = vec![(step, style), (row.at.phase.to_string(), style)];
            self.figures(&mut cells, row, style);
            if self.measured {
                cells.push((format!("  {}", largest(row)), style));
            }
            let mut notes = Vec::new();
            if peak == Some(row.at) {
                notes.push("<- peak");
            }
            if row.status() == Status::Oom {
                notes.push("out of memory");
            }
            if !notes.is_empty() {
                cells.push((notes.join(", "), style));
            }
            rows.push(cells);
        }
        rows
    }

    /// A line a case: the row of its peak.
    fn sweep(&self, cases: &[CaseReport]) -> Vec<Vec<Cell>> {
        let mut head = vec![("case", HEAD)];
        self.figure_heads(&mut head);
        head.extend([("  at", HEAD), ("rows", HEAD)]);
        if !self.verdicts.is_empty() {
            head.push(("  fits", HEAD));
        }
        let mut rows = vec![head.into_iter().map(|(t, s)| (t.to_string(), s)).collect()];
        let lines = cases.iter().enumerate().filter_map(|(number, case)| {
            let peak = case.peak()?;
            let style = if case.ran_out() { BAD } else { PLAIN };
            let mut cells = vec![(case.labels.case.clone(), style)];
            self.figures(&mut cells, peak, style);
            let at = format!("  {}", place(peak.at));
            let off = case.rows.iter().filter(|r| !r.exact()).count();
            let count = match (self.measured, off) {
                (false, _) => ((case.rows.len() + case.left_out).to_string(), style),
                (true, 0) => (format!("{} =", case.rows.len()), GOOD),
                (true, _) => (format!("{off} of {} ≠", case.rows.len()), BAD),
            };
            cells.extend([(at, style), count]);
            match self.verdicts.get(number) {
                Some(verdict) => cells.push((format!("  {verdict}"), style)),
                None if case.ran_out() => cells.push(("out of memory".to_string(), style)),
                None => {}
            }
            Some(cells)
        });
        rows.extend(shorten(lines.collect(), |n| vec![(format!("… {n} more cases"), FAINT)]));
        rows
    }

    fn figure_heads(&self, head: &mut Vec<(&'static str, Style)>) {
        for figure in Figure::ALL {
            head.push((figure.name(), HEAD));
            if self.measured {
                head.push(("predicted", FAINT));
            }
        }
    }

    fn figures(&self, cells: &mut Vec<Cell>, row: &Joined, style: Style) {
        for figure in Figure::ALL {
            let measured = row.measured.map(|m| figure.of(&m.memory));
            let predicted = row.predicted.map(|p| figure.of(&p.memory));
            let text = |v: Option<u64>| v.map_or_else(|| "-".to_string(), mib);
            if !self.measured {
                cells.push((text(predicted), style));
                continue;
            }
            let (mark, marked) = if measured == predicted { ("=", GOOD) } else { ("≠", BAD) };
            cells.push((text(measured), style));
            cells.push((format!("{} {mark}", text(predicted)), marked));
        }
    }
}

/// Where a row stands in the loop, behind the case's name where there is one.
fn place_in(case: &CaseReport, row: &Joined) -> String {
    if case.labels.case.is_empty() { place(row.at) } else { format!("{} {}", case.labels.case, place(row.at)) }
}

/// What of a row differs, in bytes: predicted − measured.
fn differences(row: &Joined) -> String {
    let (Some(m), Some(p)) = (&row.measured, &row.predicted) else {
        return if row.measured.is_some() { "measured only".to_string() } else { "predicted only".to_string() };
    };
    let mut parts = errors(&p.memory, &m.memory);
    if m.status != p.status {
        parts.push(format!("{} predicted, {} measured", p.status.name(), m.status.name()));
    }
    parts.join(", ")
}

/// The category that holds most, the first in the CSV's order among equals.
fn largest(row: &Joined) -> String {
    let Some(m) = &row.measured else { return String::new() };
    let category = Category::ALL.into_iter().rev().max_by_key(|&c| m.categories[c]).expect("there are categories");
    if m.categories[category] == 0 { String::new() } else { format!("{} {}", category.name(), mib(m.categories[category])) }
}

/// Writes rows in columns: the first cell and words to the left, figures to the right. A row of one cell is a note.
pub(crate) fn align(text: &mut String, rows: &[Vec<Cell>]) {
    let width = |s: &str| s.chars().count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter(|r| r.len() > 1).filter_map(|r| r.get(c)).map(|(t, _)| width(t)).max().unwrap_or(0))
        .collect();
    let figure = |c: usize| {
        rows.iter()
            .skip(1)
            .filter_map(|r| r.get(c).filter(|_| r.len() > 1))
            .all(|(t, _)| t.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+')))
    };
    let right: Vec<bool> = (0..columns).map(|c| c > 0 && figure(c)).collect();
    for row in rows {
        let mut line = String::new();
        for (c, (cell, style)) in row.iter().enumerate() {
            let pad = " ".repeat(if row.len() > 1 { widths[c].saturating_sub(width(cell)) } else { 0 });
            let (before, after) = if right[c] { (pad, String::new()) } else { (String::new(), pad) };
            let after = if c + 1 == row.len() { String::new() } else { after };
            let gap = if c == 0 { "" } else { "  " };
            let _ = write!(line, "{gap}{before}{style}{cell}{style:#}{after}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
