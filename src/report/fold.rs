//! Which rows of a long run the table shows.
//!
//! Invariant: what is left out is said, and a step that is left out as a repetition equals the one named in every figure.

use super::case::Joined;

/// Most lines of one table, and how many of them stand after the gap where there are more.
const MOST: usize = 48;
const LAST: usize = 12;

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'a> {
    /// A row.
    Row(&'a Joined),
    /// What stands for rows not shown.
    Note(String),
}

/// Folds steps, and micro-steps inside a step, that repeat the one before; then leaves out the middle of what is still long.
#[must_use]
pub fn fold(rows: &[Joined]) -> Vec<Line<'_>> {
    let steps: Vec<&[Joined]> = rows.chunk_by(|a, b| a.at.step == b.at.step).collect();
    let lines = fold_chunks(
        &steps,
        |step| step[0].at.step.to_string(),
        |step| {
            let micro_steps: Vec<&[Joined]> = step.chunk_by(|a, b| a.at.micro_step == b.at.micro_step).collect();
            fold_chunks(
                &micro_steps,
                |micro| format!("{}.{}", micro[0].at.step, micro[0].at.micro_step),
                |micro| micro.iter().map(Line::Row).collect(),
            )
        },
    );
    shorten(lines, |n| Line::Note(format!("… {n} lines; all rows are in the CSV")))
}

/// Leaves out the middle of a long list; `gap` says how many.
pub(crate) fn shorten<T>(mut lines: Vec<T>, gap: impl FnOnce(usize) -> T) -> Vec<T> {
    if lines.len() > MOST {
        let tail = lines.split_off(lines.len() - LAST);
        let left_out = lines.len() - (MOST - LAST - 1);
        lines.truncate(MOST - LAST - 1);
        lines.push(gap(left_out));
        lines.extend(tail);
    }
    lines
}

fn fold_chunks<'a>(
    chunks: &[&'a [Joined]],
    name: impl Fn(&[Joined]) -> String,
    show: impl Fn(&'a [Joined]) -> Vec<Line<'a>>,
) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let mut i = 0;
    while i < chunks.len() {
        let shown = chunks[i];
        lines.extend(show(shown));
        let repeats = chunks[i + 1..].iter().take_while(|c| repeats(shown, c)).count();
        match repeats {
            0 => {}
            1 => lines.push(Line::Note(format!("{} repeats {}", name(chunks[i + 1]), name(shown)))),
            n => lines.push(Line::Note(format!("{} to {} repeat {}", name(chunks[i + 1]), name(chunks[i + n]), name(shown)))),
        }
        i += 1 + repeats;
    }
    lines
}

/// Whether two chunks are the same but for their place in the loop.
fn repeats(a: &[Joined], b: &[Joined]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            a.at.phase == b.at.phase
                && a.measured.map(|m| (m.memory, m.categories, m.status)) == b.measured.map(|m| (m.memory, m.categories, m.status))
                && a.predicted.map(|p| (p.memory, p.status)) == b.predicted.map(|p| (p.memory, p.status))
        })
}
