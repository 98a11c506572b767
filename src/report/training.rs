//! `NAME.training.csv`: what a run did with time and loss, one row a micro-step. It differs from run to run, so it stands apart
//! from the results.

use super::number::shortest;
use crate::record::MicroStep;

/// The whole file; `cases` pairs each case's name with its micro-steps. A sweep has one column more, in front: the case.
#[must_use]
pub fn to_csv<'a>(sweep: bool, cases: impl Iterator<Item = (&'a str, &'a [MicroStep])>) -> Vec<u8> {
    let named = |case: &str, cells: [String; 5]| -> Vec<String> { sweep.then(|| case.to_string()).into_iter().chain(cells).collect() };
    let header = named("case", ["step", "micro_step", "loss", "skipped", "seconds"].map(String::from));
    let rows = cases.flat_map(|(case, steps)| {
        steps.iter().map(move |m| {
            named(
                case,
                [
                    m.step.to_string(),
                    m.micro_step.to_string(),
                    m.loss.map(shortest).unwrap_or_default(),
                    m.skipped.to_string(),
                    format!("{:.6}", m.seconds),
                ],
            )
        })
    });
    super::files::csv_text(std::iter::once(header).chain(rows))
}
