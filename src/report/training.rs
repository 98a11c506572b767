//! `NAME.training.csv`: what a run did with time and loss, one row a micro-step. It differs from run to run, so it stands apart
//! from the results.

use std::collections::BTreeMap;

use super::number::shortest;
use crate::record::{MicroStep, StepTimes};

/// A column: its name, its value of a micro-step, and where that is put when it is read.
type Column = (&'static str, fn(&StepTimes) -> f64, fn(&mut StepTimes) -> &mut f64);

/// The columns of a pipeline, in seconds: what each micro-step's time went to.
const TIMES: [Column; 6] = [
    ("waiting", |t| t.waiting, |t| &mut t.waiting),
    ("preparing", |t| t.preparing, |t| &mut t.preparing),
    ("copying", |t| t.copying, |t| &mut t.copying),
    ("busy", |t| t.busy, |t| &mut t.busy),
    ("logging", |t| t.logging, |t| &mut t.logging),
    ("saving", |t| t.saving, |t| &mut t.saving),
];

/// Whether an experiment, all defaults written out, has a pipeline whose times are told.
#[must_use]
pub fn is_timed(experiment: &toml::Table) -> bool {
    ["data", "log", "save"].iter().any(|table| experiment.contains_key(*table))
}

/// The whole file; `cases` pairs each case's name with its micro-steps. A sweep has one column more, in front: the case. `timed` adds
/// what the time went to, for experiments with `[data]`, `[log]` or `[save]`.
#[must_use]
pub fn to_csv<'a>(sweep: bool, timed: bool, cases: impl Iterator<Item = (&'a str, &'a [MicroStep])>) -> Vec<u8> {
    let named = |case: &str, cells: [String; 5], times: [String; TIMES.len()]| -> Vec<String> {
        let times = times.into_iter().filter(|_| timed);
        sweep.then(|| case.to_string()).into_iter().chain(cells).chain(times).collect()
    };
    let header =
        named("case", ["step", "micro_step", "loss", "skipped", "seconds"].map(String::from), TIMES.map(|(name, ..)| name.to_owned()));
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
                TIMES.map(|(_, time, _)| format!("{:.6}", time(&m.times))),
            )
        })
    });
    super::files::csv_text(std::iter::once(header).chain(rows))
}

/// Reads such a file back: each case's micro-steps, under an empty name where the file has no column for it. `None` for any other file.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<BTreeMap<String, Vec<MicroStep>>> {
    let mut cases: BTreeMap<String, Vec<MicroStep>> = BTreeMap::new();
    let mut reader = csv::Reader::from_reader(bytes);
    for row in reader.deserialize::<BTreeMap<String, String>>() {
        let row = row.ok()?;
        let cell = |name: &str| row.get(name).map(String::as_str);
        let loss = match cell("loss")? {
            "" => None,
            text => Some(text.parse().ok()?),
        };
        let mut times = StepTimes::default();
        for (name, _, place) in TIMES {
            if let Some(text) = cell(name) {
                *place(&mut times) = text.parse().ok()?;
            }
        }
        cases.entry(cell("case").unwrap_or_default().to_string()).or_default().push(MicroStep {
            step: cell("step")?.parse().ok()?,
            micro_step: cell("micro_step")?.parse().ok()?,
            loss,
            skipped: cell("skipped")?.parse().ok()?,
            seconds: cell("seconds")?.parse().ok()?,
            times,
        });
    }
    Some(cases)
}
