//! `NAME.training.csv`: what a run did with time and loss, one row a micro-step. It differs from run to run, so it stands apart
//! from the results.

use std::collections::BTreeMap;

use super::number::shortest;
use crate::record::{Load, MicroStep, StepTimes};

/// The first columns, which every such file has.
const ALWAYS: [&str; 5] = ["step", "micro_step", "loss", "skipped", "seconds"];

/// A column of a measured run: its name, and its cell for a micro-step. An empty cell is a figure that nobody gave.
type Column = (&'static str, fn(&MicroStep) -> String);

/// What each micro-step's time went to, in seconds, as [`StepTimes`] says (`busy` is the time on the device's stream from the batch to the
/// last update, gaps between kernels with it); points in time, in seconds since the loop began; what the machine showed: per cent, bytes,
/// watts, per cent of a core.
const TIMED: [Column; 14] = [
    ("waiting", |m| seconds(m.times.waiting)),
    ("preparing", |m| seconds(m.times.preparing)),
    ("copying", |m| seconds(m.times.copying)),
    ("busy", |m| m.times.busy().map(seconds).unwrap_or_default()),
    ("logging", |m| seconds(m.times.logging)),
    ("saving", |m| seconds(m.times.saving)),
    ("began", |m| seconds(m.times.began)),
    ("computing_from", |m| m.times.computing.map(|(from, _)| seconds(from)).unwrap_or_default()),
    ("prepared_from", |m| m.times.prepared.map(|(from, _)| seconds(from)).unwrap_or_default()),
    ("prepared_to", |m| m.times.prepared.map(|(_, to)| seconds(to)).unwrap_or_default()),
    ("utilisation", |m| per_cent(m.load.utilisation)),
    ("memory", |m| m.load.memory.map(|bytes| bytes.to_string()).unwrap_or_default()),
    ("power", |m| m.load.power.map(|watts| format!("{watts:.1}")).unwrap_or_default()),
    ("cpu", |m| per_cent(m.load.cpu)),
];

fn seconds(time: f64) -> String {
    format!("{time:.6}")
}

fn per_cent(share: Option<f64>) -> String {
    share.map(|share| format!("{:.0}", 100.0 * share)).unwrap_or_default()
}

/// Steps that are named of a case.
const MOST_NAMED: usize = 8;

/// Which steps the gradient scaler skipped, in words; `None` where it skipped none. Which ones it will is a matter of values, so that
/// predictions are of steps that are not.
#[must_use]
pub fn skipped(micro_steps: &[MicroStep]) -> Option<String> {
    let steps: Vec<String> = micro_steps.iter().filter(|m| m.skipped).map(|m| m.step.to_string()).collect();
    let named = steps.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = steps.len().saturating_sub(MOST_NAMED);
    let (what, more) =
        (if steps.len() == 1 { "step" } else { "steps" }, if more == 0 { String::new() } else { format!(" and {more} more") });
    let were = if steps.len() == 1 { "was" } else { "were" };
    (!steps.is_empty()).then(|| {
        format!(
            "{what} {named}{more} {were} skipped by the gradient scaler, as gradients were not finite: the optimizer did not run there, and the \
             prediction is that it runs in every step"
        )
    })
}

/// From where on the loss is no finite number, in words; `None` where it always is one. Memory does not depend on it, so it is no failure.
#[must_use]
pub fn not_finite(micro_steps: &[MicroStep]) -> Option<String> {
    let losses = micro_steps.iter().filter_map(|m| Some((m.step, m.loss?)));
    let rest: Vec<(u64, f64)> = losses.skip_while(|(_, loss)| loss.is_finite()).collect();
    let (first, _) = rest.first()?;
    let lost: Vec<f64> = rest.iter().map(|(_, loss)| *loss).filter(|loss| !loss.is_finite()).collect();
    let what = match lost.iter().filter(|loss| loss.is_nan()).count() {
        0 => "infinite",
        n if n == lost.len() => "not a number",
        _ => "infinite or not a number",
    };
    Some(if lost.len() == rest.len() {
        format!("the loss is {what} from step {first} on")
    } else {
        format!("the loss is {what} {} times, first in step {first}", lost.len())
    })
}

/// Whether an experiment, all defaults written out, has a pipeline whose times are told.
#[must_use]
pub fn is_timed(experiment: &toml::Table) -> bool {
    ["data", "log", "save"].iter().any(|table| experiment.contains_key(*table))
}

/// The whole file; `cases` pairs each case's name with its micro-steps. A sweep has one column more, in front: the case. `timed` adds
/// what the time went to, for experiments with `[data]`, `[log]` or `[save]`.
#[must_use]
pub fn to_csv<'a>(sweep: bool, timed: bool, cases: impl Iterator<Item = (&'a str, &'a [MicroStep])>) -> Vec<u8> {
    let timed = if timed { &TIMED[..] } else { &[] };
    let named = |case: &str, cells: [String; 5], times: Vec<String>| -> Vec<String> {
        sweep.then(|| case.to_string()).into_iter().chain(cells).chain(times).collect()
    };
    let header = named("case", ALWAYS.map(String::from), timed.iter().map(|(name, _)| (*name).to_owned()).collect());
    let rows = cases.flat_map(|(case, steps)| {
        steps.iter().map(move |m| {
            let loss = m.loss.map(shortest).unwrap_or_default();
            let cells = [m.step.to_string(), m.micro_step.to_string(), loss, m.skipped.to_string(), seconds(m.seconds)];
            named(case, cells, timed.iter().map(|(_, cell)| cell(m)).collect())
        })
    });
    super::files::csv_text(std::iter::once(header).chain(rows))
}

/// Reads such a file back: each case's micro-steps, under an empty name where the file has no column for it. What is measured of time
/// is 0 where the file does not tell. `None` for any other file.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<BTreeMap<String, Vec<MicroStep>>> {
    let mut cases: BTreeMap<String, Vec<MicroStep>> = BTreeMap::new();
    let mut reader = csv::Reader::from_reader(bytes);
    for row in reader.deserialize::<BTreeMap<String, String>>() {
        let row = row.ok()?;
        let cell = |name: &str| row.get(name).map(String::as_str);
        let figure = |name: &str| cell(name).and_then(|text| text.parse::<f64>().ok()).filter(|value| value.is_finite());
        let time = |name: &str| figure(name).unwrap_or(0.0);
        let share = |name: &str| figure(name).map(|per_cent| per_cent / 100.0);
        let loss = match cell("loss")? {
            "" => None,
            text => Some(text.parse().ok()?),
        };
        cases.entry(cell("case").unwrap_or_default().to_string()).or_default().push(MicroStep {
            step: cell("step")?.parse().ok()?,
            micro_step: cell("micro_step")?.parse().ok()?,
            loss,
            skipped: cell("skipped")?.parse().ok()?,
            seconds: cell("seconds")?.parse().ok()?,
            times: StepTimes {
                waiting: time("waiting"),
                preparing: time("preparing"),
                copying: time("copying"),
                logging: time("logging"),
                saving: time("saving"),
                began: time("began"),
                computing: figure("computing_from").zip(figure("busy")).map(|(from, busy)| (from, from + busy)),
                prepared: figure("prepared_from").zip(figure("prepared_to")),
            },
            load: Load {
                utilisation: share("utilisation"),
                memory: cell("memory").and_then(|bytes| bytes.parse().ok()),
                power: figure("power"),
                cpu: share("cpu"),
            },
        });
    }
    Some(cases)
}

/// Whether these are the first bytes of such a file, and not of another.
#[must_use]
pub fn is_training(bytes: &[u8]) -> bool {
    let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    let columns: Vec<&[u8]> = line.strip_suffix(b"\r").unwrap_or(line).split(|&b| b == b',').collect();
    let columns = columns.strip_prefix(&[&b"case"[..]]).unwrap_or(&columns);
    columns.len() >= ALWAYS.len() && columns.iter().zip(ALWAYS).all(|(column, name)| *column == name.as_bytes())
}
