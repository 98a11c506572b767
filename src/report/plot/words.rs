//! What the pictures say in words: tooltips, attributions, descriptions.
//!
//! Nothing here is markup; escaping is the drawer's.

use crate::meta::bytes::format_bytes;
use crate::record::{Category, Status};
use crate::report::figure::Figure;
use crate::report::number::{signed_bytes, thousands};
use crate::report::read::{Case, Row};
use crate::report::words::place;

use super::palette::STACK;

/// `127 646 208 B (121.73 MiB)`.
#[must_use]
pub fn exact(bytes: u64) -> String {
    format!("{} B ({})", thousands(u128::from(bytes)), format_bytes(bytes))
}

/// The category that holds most at the highest peak, as far as rows tell: its bytes at the start or the end of the phase, at
/// whichever more was allocated. What a backward pass frees stands at its start, what a forward pass keeps at its end.
#[must_use]
pub fn largest(case: &Case) -> Option<(Category, u64, &'static str)> {
    let peak = case.peak();
    let before = case.rows.iter().take_while(|r| r.at != peak.at).last().and_then(|r| r.categories);
    let ends = [(peak.categories, "at its end"), (before, "at its start")];
    let (categories, when) = ends.into_iter().filter_map(|(c, when)| Some((c?, when))).rev().max_by_key(|(c, _)| c.total())?;
    let category = Category::ALL.into_iter().rev().max_by_key(|&c| categories[c])?;
    (categories[category] > 0).then_some((category, categories[category], when))
}

/// `peak: 135.79 MiB in step 1 optimizer`.
#[must_use]
pub fn peak(case: &Case) -> String {
    let row = case.peak();
    format!("peak: {} in {}", format_bytes(row.memory().peak), place(row.at))
}

/// `peak: 135.79 MiB in step 1 backward (mostly activations, 64.00 MiB at its start)`: which phase, and which category.
#[must_use]
pub fn attributed(case: &Case) -> String {
    let most = largest(case).map_or_else(String::new, |(c, bytes, when)| format!(" (mostly {}, {} {when})", c.name(), format_bytes(bytes)));
    format!("{}{most}", peak(case))
}

/// A row's figures, a line each: name, a colon, the figure.
#[must_use]
pub fn tip(row: &Row) -> String {
    let mut lines = vec![place(row.at)];
    if row.status == Status::Oom {
        lines[0].push_str(", out of memory");
    }
    for figure in [Figure::Peak, Figure::Reserved, Figure::Allocated] {
        let name = figure.name();
        lines.push(match (row.measured.map(|m| figure.of(&m)), row.predicted.map(|p| figure.of(&p))) {
            (Some(m), Some(p)) if m == p => format!("{name}: {}, as predicted", exact(m)),
            (Some(m), Some(p)) => format!("{name}: {}, predicted {}", exact(m), signed_bytes(i128::from(p) - i128::from(m))),
            (Some(m), None) => format!("{name}: {}", exact(m)),
            (None, Some(p)) => format!("{name}, predicted: {}", exact(p)),
            (None, None) => continue,
        });
    }
    if let Some(categories) = row.categories {
        let held = STACK.into_iter().rev().filter(|&c| categories[c] > 0);
        lines.extend(held.map(|c| format!("{}: {}", c.name(), exact(categories[c]))));
    }
    lines.join("\n")
}

/// How well the prediction met what was measured, of all rows that have both; empty where none has.
#[must_use]
pub fn agreement<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let (mut both, mut off, mut worst) = (0usize, 0usize, 0i128);
    for row in cases.flat_map(|c| &c.rows) {
        let Some((m, p)) = row.measured.zip(row.predicted) else { continue };
        both += 1;
        off += usize::from(m != p);
        for error in Figure::ALL.map(|f| f.error(&p, &m)) {
            worst = if error.abs() > worst.abs() { error } else { worst };
        }
    }
    let all = thousands(both as u128);
    match (both, off) {
        (0, _) => String::new(),
        (1, 0) => "predicted as measured, to the byte".to_string(),
        (_, 0) => format!("predicted as measured, to the byte, in all {all} rows"),
        _ => format!("predicted otherwise than measured in {} of {all} rows, by {} at most", thousands(off as u128), signed_bytes(worst)),
    }
}
