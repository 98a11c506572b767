//! `runner fit FILE`: the largest value of an axis that fits into so much memory, by prediction, what else would fit, and whether runs
//! agree.
//!
//! Invariant: what is named was predicted to run to its end under the limit, with the value after it running out.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::ArgGroup;

use crate::experiment::{Case, Diagnostics};
use crate::gpu::Gpu;
use crate::meta::format_bytes;
use crate::model::Work;
use crate::predict::recompute::recomputed;
use crate::predict::room::roomy;
use crate::predict::search::Largest;
use crate::record::{Measured, MicroStep, Status};
use crate::scratch::Rules;
use crate::train::{Observer, Outfit};

use super::render::{Answer, Budget, Outcome, Verified, json, text};
use super::switches::switches;
use super::trial::Trial;
use crate::cli::args::{DeviceName, Size, gpu_named};
use crate::cli::device::Place;
use crate::cli::exit::{Exit, Failure};
use crate::cli::{console, load, record};

const EXAMPLES: &str = "\
Examples:
  runner fit experiments/adam.toml --memory 24GiB            the largest batch
  runner fit experiments/adam.toml --gpu rtx3090 --verify    and runs that agree
  runner fit gpt.toml --gpu a100-80gb --axis model.input.tokens.length

--memory is what the allocator may reserve, and nothing else. With --gpu alone it is the GPU's memory less its context and \
libraries. Below the answer stand other ways to train the same model: peak and reserved memory with the file's own \
values, what backward computes again, and the largest value with each.

Exit code: 0 an answer; 1 nothing fits, or a run refutes a prediction; 2 bad file or arguments; 3 no such device.";

/// What may be an axis.
const AXES: &str = "an axis is a whole number of the experiment, as train.batch_size or model.input.tokens.length";

/// Find the largest batch (or length) that fits, and what would let more fit
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("room").args(["memory", "gpu"]).required(true).multiple(true)))]
pub(in crate::cli) struct Args {
    /// The experiment; of a sweep each case is looked at, the axis aside
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bytes that the allocator may reserve, as in 24GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// The GPU whose memory behaviour counts, and whose memory is the limit unless --memory is given
    #[arg(long, value_name = "NAME", value_parser = gpu_named)]
    gpu: Option<&'static Gpu>,
    /// The setting to be made as large as possible
    #[arg(long, value_name = "KEY", default_value = "train.batch_size")]
    axis: String,
    /// Override a key, e.g. `train.dtype=bf16`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run what fits and what does not, and say whether the predictions hold
    #[arg(long)]
    verify: bool,
    /// What --verify runs on: virtual, cuda (or cuda:1, …), host
    #[arg(long, value_name = "DEVICE", default_value = "virtual", requires = "verify")]
    device: DeviceName,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Finds and prints.
pub(in crate::cli) fn run(args: &Args) -> Result<Exit, Failure> {
    let gpu = args.gpu.unwrap_or(Gpu::default_model());
    let budget = match args.memory {
        Some(Size(bytes)) => Budget { limit: bytes, gpu, outside: None },
        None => Budget { limit: gpu.total_memory.saturating_sub(gpu.outside().total()), gpu, outside: Some(gpu.outside()) },
    };
    // The axis of a sweep in the file is what is looked for: one value of it stands for all.
    let first = load::one(&args.file, &args.set, gpu, |mistakes| mistakes)?;
    if matches!(first.cases[0].work, Work::Script(_)) {
        let message = "[allocations] is a script: it has no batch and nothing to switch; `runner predict` says whether it fits";
        return Err(Failure::usage(format!("{}: {message}", args.file.display())));
    }
    let start = start(&first.cases[0], &args.axis);
    let set: Vec<String> = args.set.iter().cloned().chain(std::iter::once(format!("{}={start}", args.axis))).collect();
    let experiment = load::one(&args.file, &set, gpu, |mistakes| mistakes.of_argument(set.len(), "--axis", AXES))?;
    let place = if args.verify { Some(place(args.device, gpu)?) } else { None };
    let folder = args.file.parent().unwrap_or(Path::new(""));
    let mut answers = Vec::new();
    for case in &experiment.cases {
        answers.push(answer((&experiment.name, folder), case, &args.axis, start, &budget, place.as_ref())?);
    }
    let description = experiment.description.as_deref().unwrap_or_default();
    let render = if args.json { json } else { text };
    console::print(&render((&experiment.name, description), &args.axis, &budget, &answers))?;
    let fine = answers.iter().all(Answer::holds);
    Ok(if fine { Exit::Done } else { Exit::Failed })
}

/// The file's own value of the axis, from which the search sets out; 1 where it has none.
fn start(case: &Case, axis: &str) -> u64 {
    let mut parts = axis.split('.');
    let first = parts.next().and_then(|key| case.resolved.get(key));
    let value = parts.fold(first, |at, key| at?.get(key));
    value.and_then(toml::Value::as_integer).and_then(|n| u64::try_from(n).ok()).unwrap_or(1)
}

/// The virtual device has all the memory that the limit may ask for.
fn place(device: DeviceName, gpu: &'static Gpu) -> Result<Place, Failure> {
    if device == DeviceName::Virtual { Ok(Place::virtual_as(roomy(gpu))) } else { Place::choose(device, gpu, Rc::new(Rules)) }
}

fn answer(
    (name, folder): (&str, &Path),
    case: &Case,
    axis: &str,
    start: u64,
    budget: &Budget,
    place: Option<&Place>,
) -> Result<Answer, Failure> {
    let text = toml::to_string(&case.resolved).expect("a case spelled out is TOML");
    let gpu = budget.gpu.clone();
    let base = Trial { name: name.to_string(), text, folder: folder.to_path_buf(), settings: Vec::new(), gpu, limit: budget.limit };
    let list = switches(&base, &case.resolved);
    let mut trials = vec![("as written".to_string(), "", base)];
    trials.extend(list.into_iter().map(|s| (s.name, s.note, s.trial)));
    let mut outcomes = look_at(&trials, axis, start);
    if let Some(place) = place {
        for ((_, _, trial), outcome) in trials.iter().zip(&mut outcomes) {
            if let Ok(outcome) = outcome {
                outcome.verified = Some(verify(trial, axis, start, outcome.largest, place)?);
            }
        }
    }
    let mut rows = Vec::new();
    let mut refused = Vec::new();
    for ((name, note, _), outcome) in trials.into_iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => rows.push((name, note, outcome)),
            // Beside a case that cannot be run there is nothing to compare.
            Err(mistakes) if rows.is_empty() => return Err(Failure::usage(load::drawn(&mistakes))),
            Err(mistakes) => refused.push((name, first(&mistakes))),
        }
    }
    Ok(Answer { case: case.key.clone(), start, rows, refused })
}

/// In a line, why the language refuses something.
fn first(mistakes: &Diagnostics) -> String {
    mistakes.iter().next().map(|m| m.message.clone()).unwrap_or_default()
}

/// Looks at all trials, on all cores; what the language refuses is answered with its mistakes.
fn look_at(trials: &[(String, &'static str, Trial)], axis: &str, start: u64) -> Vec<Result<Outcome, Diagnostics>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(trials.len());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut found: Vec<(usize, Result<Outcome, Diagnostics>)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((_, _, trial)) = trials.get(i) else { return mine };
                mine.push((i, outcome(trial, axis, start)));
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("looking at a trial does not panic")).collect()
    });
    found.sort_by_key(|(i, _)| *i);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}

fn outcome(trial: &Trial, axis: &str, start: u64) -> Result<Outcome, Diagnostics> {
    let asked = trial.read();
    let case = asked.case(&[])?;
    let (peak, reserved) = asked.needs(&[])?;
    let largest = asked.largest(axis, start)?;
    let next = match largest {
        Largest::Fits(value) => Some(value + 1),
        Largest::Nothing => Some(1),
        Largest::All(_) | Largest::Indifferent | Largest::Level(_) => None,
    };
    let beyond = next.and_then(|value| asked.limited(&[], axis, value).err()).map(|mistakes| first(&mistakes));
    let again = if let Work::Train(plan) = &case.work { recomputed(plan) } else { (0, 0) };
    Ok(Outcome { peak, reserved, again, largest, beyond, verified: None })
}

/// Runs the value that fits and the one after it.
fn verify(trial: &Trial, axis: &str, start: u64, largest: Largest, place: &Place) -> Result<Verified, Failure> {
    let asked = trial.read();
    let runs = |value: u64| -> Result<bool, Failure> {
        // What the language refuses does not run.
        let Ok(case) = asked.limited(&[], axis, value) else { return Ok(false) };
        let mut heard = Heard(true);
        record::run(place, &case, &Outfit { feed: case.feed.as_ref(), ..Outfit::default() }, false, &mut heard)?;
        Ok(heard.0)
    };
    let agree = match largest {
        Largest::Fits(value) => runs(value)? && !runs(value + 1)?,
        Largest::Nothing => !runs(1)?,
        Largest::All(value) => runs(value)?,
        Largest::Indifferent | Largest::Level(_) => runs(start)?,
    };
    Ok(if agree { Verified::Agree } else { Verified::Differ })
}

/// Whether a run came to its end.
struct Heard(bool);

impl Observer for Heard {
    fn row(&mut self, row: &Measured) {
        self.0 &= row.status == Status::Ok;
    }

    fn micro_step(&mut self, _: &MicroStep) {}
}

/// For messages.
pub(super) fn size(bytes: u64) -> String {
    format_bytes(bytes)
}
