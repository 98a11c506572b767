//! `NAME.csv`: the file made for review. The same experiment gives the same bytes on every run, so it holds no time, no loss
//! and no word about the machine.
//!
//! Invariant: the eight categories of a row add up to its `measured_allocated`.

use crate::record::Category;

use super::case::{CaseReport, Joined, Labels};
use super::figure::Figure;

/// The header, in order.
#[must_use]
pub fn columns() -> Vec<String> {
    let mut names: Vec<String> =
        ["case", "batch_size", "dtype", "optimizer", "accumulation_steps", "checkpointing", "no_grad", "step", "micro_step", "phase"]
            .map(String::from)
            .to_vec();
    for figure in Figure::ALL {
        names.extend(["predicted", "measured", "error"].map(|side| figure.column(side)));
    }
    names.extend(Category::ALL.map(|c| c.name().to_string()));
    names.push("status".to_string());
    names
}

/// The whole file.
#[must_use]
pub fn to_csv(cases: &[CaseReport]) -> Vec<u8> {
    let rows = cases.iter().flat_map(|case| case.rows.iter().map(|row| record(&case.labels, row)));
    super::files::csv_text(std::iter::once(columns()).chain(rows))
}

fn record(labels: &Labels, row: &Joined) -> Vec<String> {
    let mut cells = vec![labels.case.clone()];
    match &labels.training {
        Some(t) => cells.extend([
            t.batch_size.to_string(),
            t.dtype.to_string(),
            t.optimizer.unwrap_or_default().to_string(),
            t.accumulation_steps.to_string(),
            t.checkpointing.clone(),
            t.no_grad.to_string(),
        ]),
        None => cells.extend(std::iter::repeat_n(String::new(), 6)),
    }
    cells.extend([row.at.step.to_string(), row.at.micro_step.to_string(), row.at.phase.to_string()]);
    for figure in Figure::ALL {
        let measured = row.measured.map(|m| figure.of(&m.memory));
        let predicted = row.predicted.map(|p| figure.of(&p.memory));
        let error = row.predicted.zip(row.measured).map(|(p, m)| figure.error(&p.memory, &m.memory));
        cells.extend([optional(predicted), optional(measured), optional(error)]);
    }
    cells.extend(Category::ALL.map(|c| optional(row.measured.map(|m| m.categories[c]))));
    cells.push(row.status().name().to_string());
    cells
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}
