//! A comparison for a pull request: a line a case in sight, the rows folded away below.
//!
//! Names come from files and are shown as they are: inside code spans, with nothing in them that could end the span, the cell or
//! the line.
//! Invariant: the text stays below what a comment may hold; what had to be left out is said.

use std::fmt::Write as _;

use crate::report::number::thousands;

use super::compare::{CaseChange, Change, Diff, Figure, RowChange, RowDiff, Side, Sides};
use super::fold::{Line, fold_rows, group_cases};
use super::threshold::{Threshold, Verdict};
use super::words::{self, case_name, count, percent, place, setting, signed, summary};

/// Most characters of the rows: GitHub takes comments of 65 536.
const MOST: usize = 50_000;
/// Most cases in sight.
const CASES: usize = 50;

/// The whole comparison, with what thresholds say where there are any.
#[must_use]
pub fn render(diff: &Diff, verdict: &Verdict<'_>, thresholds: &[Threshold]) -> String {
    let mut text = format!("### Memory: {}\n\n", plain(&summary(diff)));
    let _ = writeln!(text, "{} → {}", code(&diff.before), code(&diff.after));
    for note in &diff.notes {
        let _ = writeln!(text, "\n> {}", code(note));
    }
    for threshold in thresholds {
        let over = verdict.over.iter().filter(|o| o.threshold == threshold).count();
        let mark = if over == 0 { "✅" } else { "❌" };
        let _ = writeln!(text, "\n{mark} {}: {} over it", code(threshold.text()), count(over, "row"));
    }
    if !thresholds.is_empty() {
        for reason in verdict.unchecked.iter().take(CASES) {
            let _ = writeln!(text, "\n❌ {}", code(reason));
        }
        if verdict.unchecked.len() > CASES {
            let _ = writeln!(text, "\n❌ … {}", count(verdict.unchecked.len() - CASES, "more"));
        }
    }
    if !diff.same() {
        cases(&mut text, diff);
        rows(&mut text, diff);
    }
    text
}

fn cases(text: &mut String, diff: &Diff) {
    let mut lines = Vec::new();
    for experiment in &diff.experiments {
        match &experiment.sides {
            Sides::Before => lines.push((code(&experiment.name), format!("gone, {}", count(experiment.cases, "case")), String::new())),
            Sides::After => lines.push((code(&experiment.name), format!("new, {}", count(experiment.cases, "case")), String::new())),
            Sides::Both(cases) => lines.extend(cases.iter().map(|case| {
                let name = code(&case_name(&experiment.name, &case.label));
                match &case.sides {
                    Sides::Before => (name, "gone".to_string(), String::new()),
                    Sides::After => (name, "new".to_string(), String::new()),
                    Sides::Both(CaseChange::NotComparable { settings, peak }) => {
                        let settings = settings.iter().map(|s| code(&setting(s))).collect::<Vec<_>>().join(", ");
                        (name, format!("not comparable: {settings}; {}", words::peaks(*peak)), String::new())
                    }
                    Sides::Both(CaseChange::Rows { peak, end, rows }) => {
                        let peak = plain(&words::peak(*peak, *end, experiment.side));
                        (name, peak, format!("{} of {}", thousands(rows.len() as u128), count(case.rows, "row")))
                    }
                }
            })),
        }
    }
    let _ = writeln!(text, "\n| case | change | rows |\n| --- | --- | --- |");
    for (name, peak, changed) in lines.iter().take(CASES) {
        let _ = writeln!(text, "| {name} | {peak} | {changed} |");
    }
    if lines.len() > CASES {
        let _ = writeln!(text, "| … {} | | |", count(lines.len() - CASES, "more line"));
    }
}

fn rows(text: &mut String, diff: &Diff) {
    let mut body = String::new();
    let mut left_out = 0;
    for experiment in &diff.experiments {
        let Sides::Both(cases) = &experiment.sides else { continue };
        for group in group_cases(cases) {
            let Sides::Both(CaseChange::Rows { rows, .. }) = &group[0].sides else { continue };
            let mut part = format!("\n{}", code(&case_name(&experiment.name, &group[0].label)));
            if group.len() > 1 {
                let _ = write!(part, " and {} with the same change", count(group.len() - 1, "case"));
            }
            let _ = writeln!(part, "\n\n| row | allocated | peak | reserved | categories |\n| --- | ---: | ---: | ---: | --- |");
            let mut step = 0;
            for line in fold_rows(rows) {
                let _ = match (&line, words::folded(&line, step)) {
                    (_, Some(note)) => writeln!(part, "| {note} | | | | |"),
                    (Line::Row(row), None) => {
                        step = row.at.step;
                        writeln!(part, "{}", row_line(row, experiment.side, experiment.both_sides))
                    }
                    _ => Ok(()),
                };
            }
            if body.len() + part.len() > MOST {
                left_out += group.len();
            } else {
                body.push_str(&part);
            }
        }
    }
    if body.is_empty() && left_out == 0 {
        return;
    }
    let _ = write!(text, "\n<details><summary>Changed rows, in bytes</summary>\n{body}");
    if left_out > 0 {
        let _ = writeln!(text, "\nThe rows of {} did not fit here.", count(left_out, "more case"));
    }
    let _ = writeln!(text, "\n</details>");
}

fn row_line(row: &RowDiff, side: Side, both_sides: bool) -> String {
    let at = place(row.at);
    let change = match &row.sides {
        Sides::Before => return format!("| {at} | gone | | | |"),
        Sides::After => return format!("| {at} | new | | | |"),
        Sides::Both(change) => change,
    };
    let RowChange { measured, predicted, categories, status } = change;
    let (main, second) = if side == Side::Measured { (measured, predicted) } else { (predicted, measured) };
    let figures = |side: &Option<Sides<_>>| match side {
        Some(Sides::Before) => "gone | | ".to_string(),
        Some(Sides::After) => "new | | ".to_string(),
        Some(Sides::Both(figures)) => {
            let figures: &super::compare::Figures = figures;
            Figure::ALL.map(|f| figures.get(f).map_or_else(|| "=".to_string(), cell)).join(" | ")
        }
        None => "= | = | =".to_string(),
    };
    let mut words: Vec<String> = categories.iter().map(|(c, change)| format!("{} {}", c.name(), signed(change.bytes()))).collect();
    words.extend(status.map(|(before, after)| format!("**{} → {}**", before.name(), after.name())));
    let mut line = format!("| {at} | {} | {} |", figures(main), words.join(", "));
    if both_sides && figures(main) != figures(second) {
        let _ = write!(line, "\n| … predicted | {} | |", figures(second));
    }
    line
}

fn cell(change: Change) -> String {
    let percent = percent(change);
    if percent.is_empty() { signed(change.bytes()) } else { format!("{} ({})", signed(change.bytes()), percent.replace('<', "&lt;")) }
}

/// A code span that stays one in a table's cell, whatever is in it.
fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = text.replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Text outside code spans: nothing in it is markup, and nobody is mentioned.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            c if c.is_control() => out.push(' '),
            c if c.is_ascii_punctuation() && "\\`*_[]#|~".contains(c) => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
