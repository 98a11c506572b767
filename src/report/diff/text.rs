//! A comparison for a terminal: changed rows only, exact bytes, growth in red and what shrank in green.
//!
//! Styles are written always; the stream strips them where they are not wanted.
//! Invariant: every changed row is either shown or named by a line below the one it repeats.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::record::Status;

use super::compare::{CaseChange, CaseDiff, Change, Diff, ExperimentDiff, Figure, Figures, RowChange, RowDiff, Side, Sides};
use super::fold::{Line, fold_rows, group_cases};
use super::threshold::{Threshold, Verdict};
use super::words::{self, case_name, count, from_to, percent, place, setting, signed, summary};

const HEAD: Style = Style::new().bold();
const MORE: Style = AnsiColor::Red.on_default();
const LESS: Style = AnsiColor::Green.on_default();
const OTHER: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// Most labels that one line lists.
const LABELS: usize = 4;

/// The whole comparison with what thresholds say where there are any, lines ended by `\n`.
#[must_use]
pub fn render(diff: &Diff, verdict: &Verdict<'_>, thresholds: &[Threshold]) -> String {
    let mut text = String::new();
    for note in &diff.notes {
        let _ = writeln!(text, "{FAINT}{note}{FAINT:#}");
    }
    for experiment in &diff.experiments {
        match &experiment.sides {
            Sides::Before => one_sided(&mut text, experiment, "gone", &diff.after),
            Sides::After => one_sided(&mut text, experiment, "new", &diff.before),
            Sides::Both(cases) => changed(&mut text, experiment, cases),
        }
        text.push('\n');
    }
    let style = if diff.same() { LESS } else { HEAD };
    let _ = writeln!(text, "{style}{}{style:#}", summary(diff));
    if !thresholds.is_empty() {
        judge(&mut text, verdict, thresholds);
    }
    text
}

/// What thresholds say, below the comparison.
fn judge(text: &mut String, verdict: &Verdict<'_>, thresholds: &[Threshold]) {
    for threshold in thresholds {
        let over: Vec<_> = verdict.over.iter().filter(|o| o.threshold == threshold).collect();
        let worst = over.iter().max_by_key(|o| (o.change.bytes(), std::cmp::Reverse(o.at)));
        let _ = match worst {
            None => writeln!(text, "{LESS}{}: no row is over it{LESS:#}", threshold.text()),
            Some(worst) => {
                let at = format!("{} {}", case_name(worst.experiment, worst.case), place(worst.at));
                let by = from_to(worst.change);
                writeln!(text, "{MORE}{}: {} over it; most in {at}: {by}{MORE:#}", threshold.text(), count(over.len(), "row"))
            }
        };
    }
    for reason in &verdict.unchecked {
        let _ = writeln!(text, "{MORE}fails: {reason}{MORE:#}");
    }
}

fn one_sided(text: &mut String, experiment: &ExperimentDiff, what: &str, absent: &str) {
    let cases = count(experiment.cases, "case");
    let _ = writeln!(text, "{HEAD}{}{HEAD:#}  {OTHER}{what}{OTHER:#}: {cases}, not in {absent}", experiment.name);
}

fn changed(text: &mut String, experiment: &ExperimentDiff, cases: &[CaseDiff]) {
    let mut table = Table::default();
    let mut headed = false;
    let mut title = String::new();
    for group in group_cases(cases) {
        let shown = group[0];
        match &shown.sides {
            Sides::Before => table.note(format!("  {OTHER}gone{OTHER:#}: {}", labels(&group))),
            Sides::After => table.note(format!("  {OTHER}new{OTHER:#}: {}", labels(&group))),
            Sides::Both(CaseChange::NotComparable { settings, peak }) => {
                let settings = settings.iter().map(setting).collect::<Vec<_>>().join(", ");
                let of = if shown.label.is_empty() { String::new() } else { format!(": {}", labels(&group)) };
                let peaks = if group.len() == 1 { format!("; {}", words::peaks(*peak)) } else { String::new() };
                table.note(format!("  {OTHER}not comparable{OTHER:#}, {settings}{of}{peaks}"));
            }
            Sides::Both(CaseChange::Rows { peak, end, rows }) => {
                let style = match (end, peak) {
                    (Some((_, Status::Oom)), _) => MORE,
                    (Some((_, Status::Ok)), _) => LESS,
                    (None, Some(peak)) => style(*peak),
                    (None, None) => FAINT,
                };
                let peak = format!("{style}{}{style:#}", words::peak(*peak, *end, experiment.side));
                if shown.label.is_empty() {
                    title = format!("  {peak}");
                } else {
                    table.note(format!("  {HEAD}{}{HEAD:#}  {peak}", shown.label));
                }
                if !std::mem::replace(&mut headed, true) {
                    table.head(experiment.side);
                }
                case_rows(&mut table, experiment, rows);
                if group.len() > 1 {
                    table.note(format!("    {FAINT}same change in {}{FAINT:#}", labels(&group[1..])));
                }
            }
        }
    }
    let _ = writeln!(text, "{HEAD}{}{HEAD:#}{title}", experiment.name);
    table.write(text);
}

fn labels(cases: &[&CaseDiff]) -> String {
    let mut text = cases.iter().take(LABELS).map(|c| c.label.as_str()).collect::<Vec<_>>().join(", ");
    if cases.len() > LABELS {
        let _ = write!(text, " and {}", count(cases.len() - LABELS, "more case"));
    }
    text
}

fn case_rows(table: &mut Table, experiment: &ExperimentDiff, rows: &[RowDiff]) {
    let micro_steps = rows.iter().any(|r| r.at.micro_step > 1);
    let mut step_shown = None;
    for line in fold_rows(rows) {
        let row = match line {
            Line::Row(row) => row,
            line => {
                let step = step_shown.map_or(0, |(step, _)| step);
                let note = words::folded(&line, step).expect("only a row is not folded");
                let style = if matches!(line, Line::OneSided { .. }) { OTHER } else { FAINT };
                table.note(format!("    {style}{note}{style:#}"));
                continue;
            }
        };
        let here = (row.at.step, row.at.micro_step);
        let step = match (step_shown == Some(here), micro_steps && row.at.step > 0) {
            (true, _) => String::new(),
            (false, true) => format!("{}.{}", here.0, here.1),
            (false, false) => here.0.to_string(),
        };
        step_shown = Some(here);
        let start = vec![Cell::right(step, PLAIN), Cell::left(row.at.phase.to_string(), PLAIN)];
        match &row.sides {
            Sides::Before => table.row(with_word(start, "gone")),
            Sides::After => table.row(with_word(start, "new")),
            Sides::Both(change) => changed_row(table, start, change, experiment),
        }
    }
}

fn with_word(mut start: Vec<Cell>, word: &str) -> Vec<Cell> {
    start.push(Cell::right(word.to_string(), OTHER));
    start
}

fn changed_row(table: &mut Table, mut start: Vec<Cell>, change: &RowChange, experiment: &ExperimentDiff) {
    let (main, second) = match experiment.side {
        Side::Measured => (&change.measured, experiment.both_sides.then_some(&change.predicted)),
        Side::Predicted => (&change.predicted, None),
    };
    let bytes = |side: &Option<Sides<Figures>>| match side {
        Some(Sides::Both(figures)) => Some(figures.0.map(|c| c.map_or(0, Change::bytes))),
        None => Some([0; 3]),
        _ => None,
    };
    start.extend(figure_cells(main.as_ref()));
    let mut words: Vec<(String, Style)> =
        change.categories.iter().map(|(c, change)| (format!("{} {}", c.name(), signed(change.bytes())), style(*change))).collect();
    if let Some((before, after)) = change.status {
        words.push((format!("{} → {}", before.name(), after.name()), OTHER));
    }
    start.push(Cell { parts: words, right: false });
    table.row(start);
    if let Some(second) = second
        && bytes(main) != bytes(second)
    {
        let mut cells = vec![Cell::right(String::new(), PLAIN), Cell::left("  predicted".to_string(), FAINT)];
        cells.extend(figure_cells(second.as_ref()));
        table.row(cells);
    }
}

fn figure_cells(side: Option<&Sides<Figures>>) -> Vec<Cell> {
    match side {
        Some(Sides::Before) => vec![Cell::right("gone".to_string(), OTHER)],
        Some(Sides::After) => vec![Cell::right("new".to_string(), OTHER)],
        Some(Sides::Both(figures)) => Figure::ALL.into_iter().flat_map(|f| change_cells(figures.get(f))).collect(),
        None => Figure::ALL.into_iter().flat_map(|_| change_cells(None)).collect(),
    }
}

fn change_cells(change: Option<Change>) -> [Cell; 2] {
    match change {
        None => [Cell::right("=".to_string(), FAINT), Cell::right(String::new(), PLAIN)],
        Some(change) => [Cell::right(signed(change.bytes()), style(change)), Cell::right(percent(change), style(change))],
    }
}

fn style(change: Change) -> Style {
    if change.bytes() > 0 { MORE } else { LESS }
}

/// A cell: pieces of text joined by a comma, and on which side its blanks stand.
struct Cell {
    parts: Vec<(String, Style)>,
    right: bool,
}

impl Cell {
    fn left(text: String, style: Style) -> Self {
        Self { parts: vec![(text, style)], right: false }
    }

    fn right(text: String, style: Style) -> Self {
        Self { parts: vec![(text, style)], right: true }
    }

    fn width(&self) -> usize {
        self.parts.iter().map(|(t, _)| t.chars().count()).sum::<usize>() + 2 * self.parts.len().saturating_sub(1)
    }
}

/// Rows in columns, with notes between them that keep to no column.
#[derive(Default)]
struct Table {
    lines: Vec<Result<Vec<Cell>, String>>,
}

impl Table {
    fn row(&mut self, cells: Vec<Cell>) {
        self.lines.push(Ok(cells));
    }

    fn note(&mut self, text: String) {
        self.lines.push(Err(text));
    }

    fn head(&mut self, side: Side) {
        let mut cells = vec![Cell::right("step".to_string(), FAINT), Cell::left("phase".to_string(), FAINT)];
        for figure in Figure::ALL {
            cells.push(Cell::right(figure.name().to_string(), FAINT));
            cells.push(Cell::right(String::new(), FAINT));
        }
        cells.push(Cell::left(if side == Side::Measured { "bytes by category" } else { "" }.to_string(), FAINT));
        self.row(cells);
    }

    fn write(&self, text: &mut String) {
        let columns = self.lines.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.lines.iter().flatten().filter_map(|r| r.get(c)).map(Cell::width).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for line in &self.lines {
            let mut out = String::new();
            match line {
                Err(note) => out.push_str(note),
                Ok(cells) => {
                    out.push_str("  ");
                    for (cell, width) in cells.iter().zip(&widths) {
                        let pad = " ".repeat(width - cell.width());
                        out.push_str(if *width > 0 { "  " } else { "" });
                        if cell.right {
                            out.push_str(&pad);
                        }
                        for (i, (part, style)) in cell.parts.iter().enumerate() {
                            let comma = if i > 0 { ", " } else { "" };
                            let _ = if part.is_empty() { Ok(()) } else { write!(out, "{comma}{style}{part}{style:#}") };
                        }
                        if !cell.right {
                            out.push_str(&pad);
                        }
                    }
                }
            }
            let _ = writeln!(text, "{}", out.trim_end());
        }
    }
}
