//! What `fit` found, as a table and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json as object};

use super::command::size;
use super::trial::STEPS;
use crate::cli::out_of_memory::foreseen;
use crate::gpu::{Gpu, Outside};
use crate::predict::room::Shortage;
use crate::predict::search::Largest;
use crate::report::number::{mib, thousands};
use crate::report::table::{Cell, FAINT, GOOD, HEAD, PLAIN, align};

/// What there is.
pub(super) struct Budget {
    /// Bytes that may be reserved.
    pub(super) limit: u64,
    pub(super) gpu: &'static Gpu,
    /// What was taken off the GPU's memory for it; `None` where the limit was given.
    pub(super) outside: Option<Outside>,
}

/// Whether runs agree with a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verified {
    Agree,
    Differ,
}

/// What was found of one way to train.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// How many steps all of it speaks of.
    pub(super) steps: u64,
    /// With the file's own values, bytes.
    pub(super) peak: u64,
    pub(super) reserved: u64,
    /// Bytes that forward puts out, and puts out again in backward.
    pub(super) again: (u64, u64),
    pub(super) largest: Largest,
    /// The value after the largest and why the language refuses it, where it is not memory that runs out.
    pub(super) beyond: Option<(u64, String)>,
    /// Where the smallest value runs out, where not even that fits.
    pub(super) shortage: Option<Shortage>,
    pub(super) verified: Option<Verified>,
}

/// What was found of one case. The first row is the case as it stands.
pub(super) struct Answer {
    /// The sweep point.
    pub(super) case: String,
    /// Bytes that may be reserved: the budget, or less where the experiment's own limit is lower.
    pub(super) limit: u64,
    /// The file's own value of the axis.
    pub(super) start: u64,
    pub(super) rows: Vec<(String, &'static str, Outcome)>,
    /// What the language refuses, and why.
    pub(super) refused: Vec<(String, String)>,
}

impl Answer {
    /// Whether something fits, and no run refutes it.
    pub(super) fn holds(&self) -> bool {
        self.rows[0].2.largest != Largest::Nothing && self.rows.iter().all(|(_, _, o)| o.verified != Some(Verified::Differ))
    }
}

/// For a person.
pub(super) fn text((name, description): (&str, &str), axis: &str, budget: &Budget, answers: &[Answer]) -> String {
    let colon = if description.is_empty() { "" } else { ": " };
    let mut text = format!("{HEAD}{name}{HEAD:#}{colon}{description}\n");
    let gpu = budget.gpu;
    let _ = match &budget.outside {
        Some(outside) => {
            let how = if outside.is_measured { "measured" } else { "reckoned from an h200's" };
            let (total, taken) = (size(gpu.total_memory), size(outside.total()));
            writeln!(text, "{}: {total} less {taken} of context and libraries ({how}) leaves {}", gpu.name, size(budget.limit))
        }
        None => writeln!(text, "{} for the allocator, context not included; behaviour of {}", size(budget.limit), gpu.name),
    };
    for answer in answers {
        text.push('\n');
        if !answer.case.is_empty() && answers.len() > 1 {
            let _ = writeln!(text, "{HEAD}{}{HEAD:#}", answer.case);
        }
        let (_, _, base) = &answer.rows[0];
        if answer.limit < budget.limit {
            let _ = writeln!(text, "its own memory_limit of {} is less, and counts", size(answer.limit));
        }
        let _ = writeln!(text, "{HEAD}{}{HEAD:#}", sentence(axis, base));
        if matches!(base.largest, Largest::Fits(_)) && base.beyond.is_none() {
            let _ = writeln!(text, "{FAINT}{BOUNDARY}{FAINT:#}");
        }
        let _ = writeln!(text, "{FAINT}peak and reserved: with {axis} = {}; largest: of {axis}, with that switch{FAINT:#}", answer.start);
        let mut rows: Vec<Vec<Cell>> =
            vec![["switch", "peak MiB", "change", "reserved MiB", "recomputed", "largest"].map(|t| (t.to_string(), HEAD)).to_vec()];
        if base.verified.is_some() {
            rows[0].push(("  runs".to_string(), HEAD));
        }
        rows.extend(answer.rows.iter().map(|(name, note, outcome)| row(name, note, outcome, base)));
        align(&mut text, &rows);
        for (name, value, reason) in other_refusals(&answer.rows) {
            let _ = writeln!(text, "{FAINT}{name}: {axis} = {value} is refused: {reason}{FAINT:#}");
        }
        for (name, reason) in &answer.refused {
            let _ = writeln!(text, "{FAINT}not here: {name}: {reason}{FAINT:#}");
        }
    }
    text
}

/// Switches with which another value is refused, or for another reason, than as written.
fn other_refusals<'a>(rows: &'a [(String, &'static str, Outcome)]) -> impl Iterator<Item = (&'a str, u64, &'a str)> {
    let as_written = rows[0].2.beyond.as_ref();
    let others = rows[1..].iter().filter(move |(_, _, outcome)| outcome.beyond.as_ref() != as_written);
    others.filter_map(|(name, _, outcome)| outcome.beyond.as_ref().map(|(value, reason)| (name.as_str(), *value, reason.as_str())))
}

/// What bisection does not say.
const BOUNDARY: &str =
    "the boundary that bisection found: larger values may fit again, where a library's scratch or the allocator's rounding shrinks";

fn sentence(axis: &str, base: &Outcome) -> String {
    // Where steps are the axis, their number is the answer.
    let of_training = if axis == STEPS { String::new() } else { format!(", in {} steps of training", thousands(u128::from(base.steps))) };
    match (base.largest, &base.beyond) {
        (Largest::Fits(n), None) => format!("{axis} = {n} fits, {} does not{of_training}", n + 1),
        (Largest::Fits(n), Some((next, reason))) => format!("{axis} = {n} fits{of_training}, and {next} is refused: {reason}"),
        (Largest::Nothing, None) => {
            let why = base.shortage.as_ref().map(|shortage| format!(": {}", foreseen(shortage))).unwrap_or_default();
            format!("not even {axis} = 1 fits{why}; as written {} would be reserved without a limit{of_training}", size(base.reserved))
        }
        (Largest::Nothing, Some((value, reason))) => format!("no {axis} that was tried fits, and {value} is refused: {reason}"),
        (Largest::All(n), _) => format!("{axis} = {n} fits{of_training}, the most that is looked at"),
        (Largest::Indifferent, _) => format!("memory does not depend on {axis}{of_training}"),
        (Largest::Level(n), _) => format!("memory does not grow with {axis} from {n} on{of_training}"),
    }
}

fn row(name: &str, note: &str, outcome: &Outcome, base: &Outcome) -> Vec<Cell> {
    let change = (outcome.peak as f64 / base.peak.max(1) as f64 - 1.0) * 100.0;
    let change = if change.abs() < 0.05 { "0 %".to_string() } else { format!("{change:+.1} %") };
    let (all, again) = outcome.again;
    let again = if again == 0 { "0 %".to_string() } else { format!("{:.0} %", again as f64 / all as f64 * 100.0) };
    let largest = match outcome.largest {
        Largest::Fits(n) | Largest::All(n) => thousands(u128::from(n)),
        Largest::Nothing => "-".to_string(),
        Largest::Indifferent => "any".to_string(),
        Largest::Level(n) => format!("any from {}", thousands(u128::from(n))),
    };
    let style = if outcome.peak < base.peak { GOOD } else { PLAIN };
    let mut cells = vec![
        (name.to_string(), PLAIN),
        (mib(outcome.peak), PLAIN),
        (change, style),
        (mib(outcome.reserved), PLAIN),
        (again, PLAIN),
        (largest, HEAD),
    ];
    match outcome.verified {
        Some(Verified::Agree) => cells.push(("  agree".to_string(), GOOD)),
        Some(Verified::Differ) => cells.push(("  DIFFER".to_string(), crate::report::table::BAD)),
        None => {}
    }
    if !note.is_empty() {
        cells.push((format!("  {note}"), FAINT));
    }
    cells
}

/// For programs.
pub(super) fn json((name, _): (&str, &str), axis: &str, budget: &Budget, answers: &[Answer]) -> String {
    let cases: Vec<Value> = answers
        .iter()
        .map(|answer| {
            let switches: Vec<Value> = answer.rows.iter().map(|(name, note, o)| outcome(name, note, o)).collect();
            let refused: Vec<Value> = answer.refused.iter().map(|(name, reason)| object!({ "switch": name, "reason": reason })).collect();
            object!({ "case": answer.case, "memory_limit": answer.limit, "start": answer.start, "switches": switches, "refused": refused })
        })
        .collect();
    let outside = budget.outside.map(|o| object!({ "context": o.context, "libraries": o.libraries, "measured": o.is_measured }));
    let whole = object!({
        "experiment": name,
        "axis": axis,
        "gpu": budget.gpu.name,
        "total_memory": budget.gpu.total_memory,
        "outside": outside,
        "memory_limit": budget.limit,
        "cases": cases,
    });
    format!("{whole:#}\n")
}

fn outcome(name: &str, note: &str, outcome: &Outcome) -> Value {
    // What was found, the largest value where there is one, and from which on memory does not grow where it does not.
    let (answer, largest, level_from) = match outcome.largest {
        Largest::Fits(n) => ("largest", Some(n), None),
        Largest::All(n) => ("all", Some(n), None),
        Largest::Nothing => ("nothing", Some(0), None),
        Largest::Level(n) => ("level", None, Some(n)),
        Largest::Indifferent => ("indifferent", None, Some(1)),
    };
    object!({
        "switch": name,
        "note": note,
        "steps": outcome.steps,
        "peak": outcome.peak,
        "reserved": outcome.reserved,
        "forward_bytes": outcome.again.0,
        "recomputed_bytes": outcome.again.1,
        "answer": answer,
        "largest": largest,
        "level_from": level_from,
        "next_is_refused": outcome.beyond.as_ref().map(|(_, reason)| reason),
        "runs_agree": outcome.verified.map(|v| v == Verified::Agree),
    })
}
