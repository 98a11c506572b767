//! `runner fit FILE`: the largest value of an axis that fits into so much memory, by prediction, what else would fit, and whether runs
//! agree.
//!
//! Invariant: what is named was predicted to run to its end under the limit, with the value after it running out.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::ArgGroup;

use crate::experiment::{Case, Diagnostics, Experiment, Overrides};
use crate::gpu::Gpu;
use crate::meta::format_bytes;
use crate::model::Work;
use crate::predict::predict;
use crate::predict::recompute::recomputed;
use crate::predict::room::{most, roomy};
use crate::predict::search::Largest;
use crate::record::{Measured, MicroStep, Status};
use crate::report::progress::Progress;
use crate::train::{Observer, Outfit};

use super::render::{Answer, Budget, Outcome, Verified, json, text};
use super::switches::switches;
use super::trial::{Trial, least_steps};
use crate::cli::args::{Calibration, Changes, DeviceName, Size, Told, gpu_named};
use crate::cli::device::Place;
use crate::cli::exit::{Exit, Failure};
use crate::cli::{console, load, machine, record};

const EXAMPLES: &str = "\
Examples:
  runner fit experiments/adam.toml --memory 24GiB            the largest batch
  runner fit experiments/adam.toml --gpu rtx3090 --verify    and runs that agree
  runner fit gpt.toml --gpu a100-80gb --axis model.input.tokens.length

--memory is what the allocator may reserve, and nothing else. With --gpu alone it is the GPU's memory less its context and \
libraries. An experiment's own memory_limit counts where it is less. \
The answer is the boundary that bisection found: this value fits and the next does not. Larger ones may fit again, where a \
library's scratch or the allocator's rounding shrinks; `runner predict` says so of each. \
All of it speaks of training that goes on: of 10 steps, or of the file's own `steps` where they are more, as memory \
reserved may still grow in the first of them; what --verify runs is as long. `runner predict` speaks of the file's own. \
Below the answer stand other ways to train the same model: peak and reserved memory with the file's own \
values, what backward computes again, and the boundary with each.

Exit code: 0 an answer; 1 nothing fits, or a run refutes a prediction; 2 bad file or arguments; 3 no such device.";

/// What may be an axis.
const AXES: &str = "an axis is a whole number of the experiment, as train.batch_size or model.input.tokens.length";

/// No axis: it is the budget itself.
const MEMORY_LIMIT: &str = "allocator.memory_limit";

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
    #[arg(long, value_name = "NAME", value_parser = gpu_named())]
    gpu: Option<&'static Gpu>,
    #[command(flatten)]
    calibration: Calibration,
    /// The setting to be made as large as possible
    #[arg(long, value_name = "KEY", default_value = "train.batch_size")]
    axis: String,
    #[command(flatten)]
    changes: Changes,
    /// Run what fits and what does not, and say whether the predictions hold
    #[arg(long)]
    verify: bool,
    /// What --verify runs on: virtual, cuda (or cuda:1, …), host
    #[arg(long, value_name = "DEVICE", default_value = "virtual", requires = "verify")]
    device: DeviceName,
    /// Write JSON, bytes as integers; `answer` is largest, all (as far as is looked), nothing, level (from `level_from` on larger values
    /// need no more) or indifferent
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
    if args.axis == MEMORY_LIMIT {
        let instead = "give it as --memory, or ask `runner predict` with --set";
        return Err(Failure::usage(format!("--axis {MEMORY_LIMIT}: that is what there is, not what needs it: {instead}")));
    }
    // The axis of a sweep in the file is what is looked for: one value of it stands for all.
    let first = load::one(&args.file, &args.changes.overrides(), gpu, |mistakes| mistakes)?;
    if matches!(first.cases[0].work, Work::Script(_)) {
        let message = "[allocations] is a script: it has no batch and nothing to switch; `runner predict` says whether it fits";
        return Err(Failure::usage(format!("{}: {message}", args.file.display())));
    }
    let (start, experiment) = set_out(args, &first.cases[0], gpu)?;
    let scratch = args.calibration.scratch(gpu)?;
    let place = if args.verify { Some(place(args.device, gpu, &scratch)?) } else { None };
    let folder = args.file.parent().unwrap_or(Path::new(""));
    let mut answers = Vec::new();
    for case in &experiment.cases {
        answers.push(answer((&experiment.name, folder), case, &args.axis, start, (&budget, &*scratch), place.as_ref())?);
    }
    let description = experiment.description.as_deref().unwrap_or_default();
    let render = if args.json { json } else { text };
    console::print(&render((&experiment.name, description), &args.axis, &budget, &answers))?;
    let fine = answers.iter().all(Answer::holds);
    Ok(if fine { Exit::Done } else { Exit::Failed })
}

/// The value from which the search sets out, and the experiment with it: the file's own, or else the first power of two that the language
/// takes.
///
/// # Errors
/// It takes none: as it words that of the first.
fn set_out(args: &Args, case: &Case, gpu: &Gpu) -> Result<(u64, Experiment), Failure> {
    const POWERS: u32 = 40;
    let with = |value: u64| -> Result<_, Failure> {
        let mut overrides = args.changes.overrides();
        overrides.set.push(format!("{}={value}", args.axis));
        let experiment = load::one(&args.file, &overrides, gpu, |mistakes| mistakes.of_argument(overrides.set.len(), "--axis", AXES))?;
        Ok((value, experiment))
    };
    match own(case, &args.axis) {
        Some(value) => with(value),
        None => with(1).or_else(|refused| (1..=POWERS).find_map(|power| with(1 << power).ok()).ok_or(refused)),
    }
}

/// The file's own value of the axis, where it has one.
fn own(case: &Case, axis: &str) -> Option<u64> {
    let mut parts = axis.split('.');
    let first = parts.next().and_then(|key| case.resolved.get(key));
    let value = parts.fold(first, |at, key| at?.get(key));
    value.and_then(toml::Value::as_integer).and_then(|n| u64::try_from(n).ok())
}

/// The virtual device has all the memory that the limit may ask for.
fn place(device: DeviceName, gpu: &'static Gpu, scratch: &Rc<Told>) -> Result<Place, Failure> {
    let scratch = Rc::<Told>::clone(scratch);
    if device == DeviceName::Virtual { Ok(Place::virtual_as(roomy(gpu), scratch)) } else { Place::choose(device, gpu, scratch) }
}

fn answer(
    (name, folder): (&str, &Path),
    case: &Case,
    axis: &str,
    start: u64,
    (budget, scratch): (&Budget, &Told),
    place: Option<&Place>,
) -> Result<Answer, Failure> {
    let text = toml::to_string(&case.resolved).expect("a case spelled out is TOML");
    let gpu = budget.gpu.clone();
    let limit = case.allocator.limit(gpu.total_memory).map_or(budget.limit, |own| own.min(budget.limit));
    let base = Trial {
        name: name.to_string(),
        text,
        folder: folder.to_path_buf(),
        overrides: Overrides::default(),
        gpu,
        scratch,
        limit,
        steps: least_steps(axis),
    };
    let list = switches(&base, &case.resolved);
    let mut trials = vec![("as written".to_string(), "", base)];
    trials.extend(list.into_iter().map(|s| (s.name, s.note, s.trial)));
    let mut outcomes = look_at(&trials, axis, start);
    if let Some(place) = place {
        verify(&trials, &mut outcomes, axis, start, place)?;
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
    Ok(Answer { case: case.key.clone(), limit, start, rows, refused })
}

/// In a line, why the language refuses something.
fn first(mistakes: &Diagnostics) -> String {
    mistakes.iter().next().map(|m| m.message.clone()).unwrap_or_default()
}

/// Looks at all trials, on all cores; what the language refuses is answered with its mistakes.
fn look_at(trials: &[(String, &'static str, Trial<'_>)], axis: &str, start: u64) -> Vec<Result<Outcome, Diagnostics>> {
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

fn outcome(trial: &Trial<'_>, axis: &str, start: u64) -> Result<Outcome, Diagnostics> {
    let asked = trial.read();
    let case = asked.case(&[])?;
    let (peak, reserved) = asked.needs(&[])?;
    let largest = asked.largest(axis, start)?;
    let next = match largest {
        Largest::Fits(value) => Some(value + 1),
        Largest::Nothing => Some(1),
        Largest::All(_) | Largest::Indifferent | Largest::Level(_) => None,
    };
    let refusal = |value: u64| asked.limited(axis, value).err().map(|mistakes| (value, first(&mistakes)));
    let beyond = next.and_then(refusal);
    let again = if let Work::Train(plan) = &case.work { recomputed(plan) } else { (0, 0) };
    let shortage = if largest == Largest::Nothing { asked.shortage(axis, 1) } else { None };
    let steps = if let Work::Train(plan) = &case.work { plan.settings.steps } else { 0 };
    Ok(Outcome { steps, peak, reserved, again, largest, beyond, shortage, verified: None })
}

/// A run that a prediction foretells.
struct Claim {
    /// Which trial's.
    trial: usize,
    case: Case,
    fits: bool,
}

/// Runs what is said to fit, and what is said not to. What the language refuses does not run, as foretold.
///
/// # Errors
/// The device fails, or the machine does not hold a run.
fn verify(
    trials: &[(String, &'static str, Trial<'_>)],
    outcomes: &mut [Result<Outcome, Diagnostics>],
    axis: &str,
    start: u64,
    place: &Place,
) -> Result<(), Failure> {
    let mut claims = Vec::new();
    for (number, ((_, _, trial), outcome)) in trials.iter().zip(&mut *outcomes).enumerate() {
        let Ok(outcome) = outcome else { continue };
        outcome.verified = Some(Verified::Agree);
        let asked = trial.read();
        let values = match outcome.largest {
            Largest::Fits(value) => vec![(value, true), (value + 1, false)],
            Largest::Nothing => vec![(1, false)],
            Largest::All(value) | Largest::Level(value) => vec![(value, true)],
            Largest::Indifferent => vec![(start, true)],
        };
        let cases = values.into_iter().filter_map(|(value, fits)| Some((asked.limited(axis, value).ok()?, fits)));
        claims.extend(cases.map(|(case, fits)| Claim { trial: number, case, fits }));
    }
    if place.name() == "host" {
        let titled = claims.iter().map(|claim| (trials[claim.trial].0.as_str(), &claim.case));
        refuse_what_does_not_fit(titled, place)?;
    }
    let micro_steps = claims.iter().map(|claim| load::micro_steps(&claim.case.work)).fold(0, u64::saturating_add);
    let progress = Progress::new(claims.len(), micro_steps, !console::is_quiet());
    for (number, Claim { trial, case, fits }) in claims.iter().enumerate() {
        progress.done(number, claims.len());
        let mut heard = Heard { to_the_end: true, micro_steps: 0, title: &trials[*trial].0, progress: &progress };
        let outfit = Outfit { feed: case.feed.as_ref(), ..Outfit::default() };
        let ran = record::run(place, case, &outfit, false, &mut heard);
        progress.skip(load::micro_steps(&case.work).saturating_sub(heard.micro_steps));
        if let (Ok(outcome), true) = (&mut outcomes[*trial], ran.map(|_| heard.to_the_end != *fits).inspect_err(|_| progress.finish())?) {
            outcome.verified = Some(Verified::Differ);
        }
    }
    progress.finish();
    Ok(())
}

/// Refuses runs that this machine has no memory for.
fn refuse_what_does_not_fit<'a>(cases: impl Iterator<Item = (&'a str, &'a Case)>, place: &Place) -> Result<(), Failure> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    let lacking = cases.filter_map(|(title, case)| {
        let (peak, reserved) = most(&predict(&case.work, place.rules(), case.allocator.clone()));
        machine::lacks(title, reserved.max(peak), available)
    });
    let mut lines: Vec<String> = lacking.collect();
    if lines.is_empty() {
        return Ok(());
    }
    lines.push("nothing was run; `--verify` on the virtual device takes no memory".to_owned());
    Err(Failure::new(Exit::Failed, lines.join("\n")))
}

/// Whether a run came to its end; moves the bar.
struct Heard<'a> {
    to_the_end: bool,
    micro_steps: u64,
    title: &'a str,
    progress: &'a Progress,
}

impl Observer for Heard<'_> {
    fn row(&mut self, row: &Measured) {
        self.to_the_end &= row.status == Status::Ok;
        self.progress.at(self.title, row.at.phase);
    }

    fn micro_step(&mut self, _: &MicroStep) {
        self.micro_steps += 1;
        self.progress.advance();
    }
}

/// For messages.
pub(super) fn size(bytes: u64) -> String {
    format_bytes(bytes)
}
