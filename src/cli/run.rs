//! `runner FILE…`: trains each experiment on a device, holds the measured rows against the predicted ones, prints the table and
//! writes the files.
//!
//! Invariant: nothing runs and nothing is written before every file has been read without a mistake, the device is there, the
//! machine holds what is to run, and the folder takes files.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::experiment::Experiment;
use crate::meta::format_bytes;
use crate::ops::RuleContext;
use crate::predict::predict;
use crate::record::{DeviceMemory, Measured, MicroStep, Predicted};
use crate::report::progress::Progress;
use crate::report::run_file::{self, Machine, RunFile};
use crate::report::{CaseReport, Table, files, join, results, training};
use crate::train::{Observer, Outfit};

use super::args::{DeviceName, Files};
use super::device::Place;
use super::exit::{Exit, Failure};
use super::inputs::Outputs;
use super::{console, dump, load, machine, record};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    /// What computes
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceName,
    /// The folder that the files are written to
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Write a memory snapshot as torch.cuda.memory._dump_snapshot does, for pytorch.org/memory_viz: how memory lies at the end, and all
    /// that happened
    #[arg(long, value_name = "FILE.pickle")]
    snapshot: Option<PathBuf>,
    /// Print no table and no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs all experiments.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let place = Place::choose(args.device, args.files.gpu, args.files.scratch()?)?;
    let runs: Vec<Run> = load::load(&args.files, place.gpu())?.into_iter().map(|e| Run::foresee(e, place.rules())).collect();
    if args.snapshot.is_some() && runs.iter().map(|r| r.experiment.cases.len()).sum::<usize>() != 1 {
        return Err(Failure::usage("--snapshot writes one file, so it takes one experiment of one case"));
    }
    if place.is_host() {
        refuse_what_does_not_fit(&runs)?;
    }
    files::prepare_folder(&args.out).map_err(Failure::usage)?;
    place.rehearse_cases(runs.iter().flat_map(|run| &run.experiment.cases).map(|case| &case.work));
    let mut exit = Exit::Done;
    for run in runs {
        exit = exit.max(run.perform(args, &place)?);
    }
    Ok(exit)
}

/// An experiment and what is foreseen of each of its cases.
struct Run {
    experiment: Experiment,
    predicted: Vec<Vec<Predicted>>,
}

impl Run {
    fn foresee(experiment: Experiment, cx: RuleContext<'_>) -> Self {
        let predicted = experiment.cases.iter().map(|case| predict(&case.work, cx, case.allocator.clone())).collect();
        Self { experiment, predicted }
    }

    /// Runs the cases, writes the files and prints the table.
    fn perform(self, args: &Args, place: &Place) -> Result<Exit, Failure> {
        let started = SystemTime::now();
        let Experiment { name, description, cases } = self.experiment;
        let progress = Progress::new(cases.iter().map(|c| load::micro_steps(&c.work)).sum(), !args.quiet);
        let sweep = cases.len() > 1 || cases.iter().any(|c| !c.key.is_empty());
        let mut reports = Vec::with_capacity(cases.len());
        let mut trainings = Vec::with_capacity(cases.len());
        let mut resolved = Vec::with_capacity(cases.len());
        let mut held = None;
        let mut stopped = None;
        for (case, predicted) in cases.into_iter().zip(&self.predicted) {
            progress.name(format!("{name} {}", case.key).trim_end());
            let labels = load::labels(&case);
            let mut heard = Heard { rows: Vec::with_capacity(predicted.len()), micro_steps: Vec::new(), progress: &progress };
            let outfit = Outfit { feed: case.feed.as_ref() };
            let (recorder, ended) = record::run(place, &case, &outfit, args.snapshot.is_some(), &mut heard)?;
            if let Some(path) = &args.snapshot {
                let snapshot = dump::of_run(&recorder, &case, &name).to_pickle();
                files::write_whole(path, &snapshot).map_err(|e| Failure::new(Exit::Failed, e))?;
            }
            // A case that stopped has no rows but those it came to.
            let foreseen = if ended.stopped.is_some() { &predicted[..heard.rows.len().min(predicted.len())] } else { predicted };
            reports.push(CaseReport { labels, rows: join(&heard.rows, foreseen) });
            trainings.push((case.key.clone(), heard.micro_steps));
            held = ended.device_memory.or(held);
            stopped = ended.stopped.map(|why| format!("{}: {why}", format!("{name} {}", case.key).trim_end()));
            resolved.push(run_file::Case { key: case.key, device_memory: ended.device_memory, experiment: case.resolved });
            if stopped.is_some() {
                break;
            }
        }
        drop(progress);

        let outputs = Outputs::of(&args.out, &name);
        let run_file = RunFile {
            name: name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            device: place.name(),
            gpu: place.gpu().name,
            set: args.files.set.clone(),
            started: run_file::utc(started),
            ended: run_file::utc(SystemTime::now()),
            machine: machine(),
            scratch: place.asked(),
            case: resolved,
        };
        let write = |path: &PathBuf, text: &[u8]| files::write_whole(path, text).map_err(|e| Failure::new(Exit::Failed, e));
        write(&outputs.results, &results::to_csv(&reports))?;
        write(&outputs.training, &training::to_csv(sweep, trainings.iter().map(|(key, steps)| (&**key, &**steps))))?;
        write(&outputs.run, run_file.to_toml().as_bytes())?;

        let table = Table {
            name: &name,
            description: description.as_deref().unwrap_or_default(),
            place: &place.describe(),
            measured: true,
            cases: &reports,
        };
        if !args.quiet {
            let device = held.map(|held| in_words(&held)).unwrap_or_default();
            console::print(&format!("{}{device}-> {}\n\n", table.render(), outputs.results.display()))?;
        }
        if let Some(why) = stopped {
            return Err(Failure::new(Exit::Failed, why));
        }
        let fine = table.summary().1;
        Ok(if fine { Exit::Done } else { Exit::Failed })
    }
}

/// Keeps what a run says, and moves the bar.
struct Heard<'a> {
    rows: Vec<Measured>,
    micro_steps: Vec<MicroStep>,
    progress: &'a Progress,
}

impl Observer for Heard<'_> {
    fn row(&mut self, row: &Measured) {
        self.rows.push(*row);
    }

    fn micro_step(&mut self, done: &MicroStep) {
        self.micro_steps.push(*done);
        self.progress.advance();
    }
}

/// A host run takes what it reserves from this machine. What is foreseen not to fit is not begun.
fn refuse_what_does_not_fit(runs: &[Run]) -> Result<(), Failure> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    let mut refused = Vec::new();
    for run in runs {
        for (case, predicted) in run.experiment.cases.iter().zip(&run.predicted) {
            let needed = predicted.iter().map(|p| p.memory.reserved.max(p.memory.peak)).max().unwrap_or(0);
            if needed > available {
                let name = format!("{} {}", run.experiment.name, case.key);
                let (needed, available) = (format_bytes(needed), format_bytes(available));
                refused.push(format!("{}: needs {needed} of memory on the host, of which {available} are available", name.trim_end()));
            }
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    refused.push("nothing was run; `--device virtual` takes no memory and writes the same rows".to_string());
    Err(Failure::new(Exit::Failed, refused.join("\n")))
}

/// The identity on the terminal: of the last case.
fn in_words(held: &DeviceMemory) -> String {
    let of = |bytes: u64| format_bytes(bytes);
    let others = if held.before_context > 0 { format!("{} of others + ", of(held.before_context)) } else { String::new() };
    let sign = if held.remainder < 0 { '-' } else { '+' };
    format!(
        "device memory: {} used = {others}{} context + {} libraries and kernels + {} reserved {sign} {}\n",
        of(held.used),
        of(held.context),
        of(held.libraries),
        of(held.reserved),
        of(held.remainder.unsigned_abs()),
    )
}

fn machine() -> Machine {
    Machine {
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        processor: machine::processor(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory: machine::total_memory(),
    }
}
