//! `runner FILE…`: trains each experiment on a device, holds the measured rows against the predicted ones, prints the tables and
//! writes the files.
//!
//! Invariant: nothing runs and nothing is written before every file has been read without a mistake, the device is there, the
//! machine holds what is to run, and the folder takes files.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::gpu::Gpu;
use crate::meta::format_bytes;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::predict::predict;
use crate::predict::room::most;
use crate::report::files;
use crate::report::journal::Setting;
use crate::report::number::thousands;
use crate::report::progress::Progress;
use crate::report::shard::Shard;
use crate::report::training;
use crate::report::words::count;
use crate::save::{self, Snapshot};
use crate::train;

use super::args::{DeviceName, Files};
use super::crew::{Crew, Job, Outcome, Report};
use super::exit::{Exit, Failure};
use super::share::{Context, Share, State, Written};
use super::{console, inputs, interrupt, load, machine, places};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) files: Files,
    /// What computes: auto, cuda (or cuda:1, …), host, virtual
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(super) device: DeviceName,
    /// Spread the cases over several GPUs of one model, as in cuda:0,cuda:1
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', conflicts_with = "device")]
    pub(super) devices: Vec<DeviceName>,
    /// Cases that run at once on host or virtual [default: 1 on host, all cores on virtual]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) jobs: Option<u16>,
    /// The folder that the files are written to
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub(super) out: PathBuf,
    /// Write a memory snapshot as torch.cuda.memory._dump_snapshot does, for pytorch.org/memory_viz: how memory lies at the end, and all
    /// that happened
    #[arg(long, value_name = "FILE.pickle", conflicts_with = "resume")]
    pub(super) snapshot: Option<PathBuf>,
    /// Print the numbered cases and run nothing
    #[arg(long)]
    pub(super) list: bool,
    /// Go on from an interrupted or earlier run: cases whose experiment, version, device and scratch are unchanged count as done
    #[arg(long, conflicts_with = "list")]
    pub(super) resume: bool,
    /// Go on from a save, of the same experiment
    #[arg(long, value_name = "SAVE", conflicts_with_all = ["resume", "list"])]
    pub(super) resume_from: Option<PathBuf>,
    /// Take only this share of every sweep, as in 2/8, and write NAME.shard-2-of-8.csv; `runner merge` joins them
    #[arg(long, value_name = "K/N")]
    pub(super) shard: Option<Shard>,
}

/// Runs all experiments.
pub(super) fn run(args: &Args, quiet: bool) -> Result<Exit, Failure> {
    let devices = devices(args)?;
    let shares = |gpu: &Gpu| -> Result<Vec<Share>, Failure> {
        Ok(load::load(&args.files, gpu)?.into_iter().map(|e| Share::of(e, args.shard, &args.out)).collect())
    };
    if args.list {
        console::print(&list(&shares(args.files.gpu)?, args.shard))?;
        return Ok(Exit::Done);
    }
    let mut crew = Crew::open(&devices, args.jobs.map(usize::from), &args.files)?;
    let mut shares = shares(&crew.facts().gpu)?;
    let going_on = args.resume_from.as_deref().map(|save| go_on(save, &mut shares)).transpose()?.map(Arc::new);
    let cases = shares.iter().map(|s| s.slots.len()).sum();
    if args.snapshot.is_some() && cases != 1 {
        return Err(Failure::usage("--snapshot writes one file, so it takes one experiment of one case"));
    }
    check_places(args, &shares)?;
    crew.enlarge(args.jobs.map(usize::from), cases, &args.files)?;
    let facts = crew.facts().clone();
    let scratch = args.files.scratch()?;
    let mut origin = scratch.origin();
    if facts.device == "cuda" {
        // A GPU's libraries are asked themselves.
        origin.clear();
    } else {
        args.files.check_scratch(&facts.gpu, shares.iter().flat_map(Share::waiting))?;
    }
    let setting = Setting::of(facts.device, facts.gpu.name, origin);
    let cx = RuleContext { gpu: &facts.gpu, scratch: &*scratch };
    if args.resume {
        shares.iter_mut().for_each(|share| share.take_over(&setting, cx));
        let done: usize = shares.iter().map(Share::done).sum();
        console::note(&format!("{} of {} done before", thousands(done as u128), count(cases, "case")));
    }
    if facts.device == "host" {
        refuse_what_does_not_fit(&shares, cx, crew.size())?;
    }
    files::prepare_folder(&args.out)?;
    let outputs = shares.iter().flat_map(|share| share.outputs.all());
    outputs.chain(args.snapshot.as_deref()).try_for_each(files::try_place)?;
    for share in &mut shares {
        share.begin_journal(&setting)?;
    }
    let micro_steps = shares.iter().flat_map(|s| &s.slots).map(waiting_micro_steps).fold(0, u64::saturating_add);
    let progress = Progress::new(cases, micro_steps, !quiet);
    let overrides = args.files.changes.overrides();
    let context = Context { facts: &facts, setting: &setting, overrides: &overrides, started: SystemTime::now() };
    let mut run = Run {
        printed: 0,
        texts: shares.iter().map(|_| None).collect(),
        shares,
        quiet,
        progress,
        context,
        snapshot: args.snapshot.as_deref(),
        going_on,
        exit: Exit::Done,
    };
    let exit = run.perform(crew);
    run.progress.finish();
    exit
}

/// Refuses outputs that would be written over what is read, or over one another.
fn check_places(args: &Args, shares: &[Share]) -> Result<(), Failure> {
    let experiments = inputs::collect(&args.files.files)?;
    let data: BTreeSet<&Path> =
        shares.iter().flat_map(Share::waiting).filter_map(|case| case.feed.as_ref()).flat_map(|feed| feed.settings.files.paths()).collect();
    let read = || experiments.iter().map(PathBuf::as_path).chain(data.iter().copied()).chain(args.files.besides());
    let named = || shares.iter().flat_map(|share| share.outputs.all()).chain(args.snapshot.as_deref());
    places::check(read().chain(args.resume_from.as_deref()), named())?;
    // A run may go on from the very save that its own will replace.
    let saves: Vec<PathBuf> = shares.iter().flat_map(Share::saves).collect();
    places::check(read(), saves.iter().map(PathBuf::as_path).chain(args.snapshot.as_deref()))
}

/// Reads a save, and lets the one case that there is go on from it.
///
/// # Errors
/// There are several cases; the save cannot be read, is of another network, or leaves nothing to do.
fn go_on(save: &Path, shares: &mut [Share]) -> Result<Snapshot, Failure> {
    let snapshot = save::read(save).map_err(Failure::usage)?;
    let cases: usize = shares.iter().map(|s| s.slots.len()).sum();
    let slot = shares.iter_mut().flat_map(|s| &mut s.slots).next().filter(|_| cases == 1);
    let Some((case, experiment)) = slot.and_then(|slot| match &mut slot.state {
        State::Waiting(case) => Some((case, &mut slot.experiment)),
        _ => None,
    }) else {
        return Err(Failure::usage(format!("one case goes on from a save, and there are {cases}")));
    };
    let Work::Train(plan) = &mut case.work else {
        return Err(Failure::usage("a run goes on from a save, and `[allocations]` trains nothing"));
    };
    let mut wrong = train::misfits(plan, &snapshot);
    if snapshot.about.step >= plan.settings.steps {
        wrong.push(format!("it has {} steps done, and the experiment has {}: nothing is left", snapshot.about.step, plan.settings.steps));
    }
    if wrong.is_empty() {
        plan.settings.done = snapshot.about.step;
        // What is written of it is not what the whole experiment gives.
        experiment.insert("done_before".to_owned(), i64::try_from(snapshot.about.step).unwrap_or(i64::MAX).into());
        return Ok(snapshot);
    }
    let lines = wrong.iter().map(|what| format!("\n  {what}")).collect::<String>();
    Err(Failure::usage(format!("{} is no save of this experiment:{lines}", save.display())))
}

/// The devices asked for.
fn devices(args: &Args) -> Result<Vec<DeviceName>, Failure> {
    if args.devices.is_empty() {
        return Ok(vec![args.device]);
    }
    let mut seen = BTreeSet::new();
    let all = args.devices.iter().all(|d| matches!(d, DeviceName::Cuda(n) if seen.insert(*n)));
    if all {
        return Ok(args.devices.clone());
    }
    Err(Failure::usage("--devices takes GPUs, each once, as in `--devices cuda:0,cuda:1`; on host and virtual `--jobs` runs cases at once"))
}

fn waiting_micro_steps(slot: &super::share::Slot) -> u64 {
    if let State::Waiting(case) = &slot.state { load::micro_steps(&case.work) } else { 0 }
}

/// The plan, numbered.
fn list(shares: &[Share], shard: Option<Shard>) -> String {
    let mut text = String::new();
    for share in shares {
        let colon = if share.description.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "{}{colon}{}", share.name, share.description);
        let width = share.of.to_string().len().max(4);
        for slot in &share.slots {
            let name = if slot.labels.case.is_empty() { "as written" } else { &slot.labels.case };
            let _ = writeln!(text, "{:>width$}  {name}", slot.number);
        }
    }
    let (mine, all) = (shares.iter().map(|s| s.slots.len()).sum(), shares.iter().map(|s| s.of).sum());
    let of = shard.map_or_else(String::new, |s| format!(", shard {s} of {}", count(all, "case")));
    let _ = writeln!(text, "{} of {}{of}", count(mine, "case"), count(shares.len(), "experiment"));
    text
}

/// A run under way.
struct Run<'a> {
    shares: Vec<Share>,
    /// What is to be printed of each share that is done.
    texts: Vec<Option<String>>,
    /// How many shares have been printed.
    printed: usize,
    quiet: bool,
    progress: Progress,
    context: Context<'a>,
    /// Where the one case's memory snapshot goes.
    snapshot: Option<&'a Path>,
    /// The save that the one case goes on from.
    going_on: Option<Arc<Snapshot>>,
    exit: Exit,
}

impl Run<'_> {
    /// Runs what waits, and ends when all is done, no worker is left, or the user wants it.
    fn perform(&mut self, crew: Crew) -> Result<Exit, Failure> {
        let mut places = Vec::new();
        let mut jobs = VecDeque::new();
        let is_one_of_many = self.shares.iter().map(|s| s.slots.len()).sum::<usize>() > 1;
        for (s, share) in self.shares.iter_mut().enumerate() {
            for i in 0..share.slots.len() {
                let title = share.title(i);
                let save = share.outputs.save(share.slots[i].number, share.of);
                let slot = &mut share.slots[i];
                let timed = training::is_timed(&slot.experiment);
                if matches!(slot.state, State::Waiting(_))
                    && let State::Waiting(case) = std::mem::replace(&mut slot.state, State::Running)
                {
                    let experiment = share.name.clone();
                    jobs.push_back(Job {
                        number: places.len(),
                        experiment,
                        title,
                        case: *case,
                        history: self.snapshot.is_some(),
                        timed,
                        save,
                        going_on: self.going_on.clone(),
                        quiet: self.quiet,
                        is_one_of_many,
                    });
                    places.push((s, i));
                }
            }
        }
        for s in 0..self.shares.len() {
            self.finish_if_done(s)?;
        }
        self.show_progress();
        if jobs.is_empty() {
            return Ok(self.exit);
        }
        let sender = crew.sender();
        let _asking = interrupt::on_first(move || {
            let _ = sender.send(Report::Interrupted);
        });
        let mut workers = crew.size();
        let reports = crew.start(jobs, &self.progress);
        let mut broken = None;
        while workers > 0 {
            match reports.recv().expect("the interruption's sender lives") {
                Report::Case(outcome) => {
                    let (share, slot) = places[outcome.number];
                    self.take(share, slot, *outcome)?;
                }
                Report::Idle => workers -= 1,
                Report::Broken(failure) => {
                    workers -= 1;
                    broken = Some(failure);
                }
                Report::Interrupted => {
                    let kept = self.keep_what_is_done()?;
                    return Err(Failure::new(Exit::Interrupted, format!("interrupted{kept}")));
                }
                Report::Ready(_) | Report::Absent(_) => unreachable!("every worker has its device"),
            }
        }
        match broken {
            Some(failure) if self.shares.iter().any(|s| !s.is_done()) => {
                let kept = self.keep_what_is_done()?;
                Err(Failure::new(failure.exit, format!("{}{kept}", failure.message)))
            }
            _ => Ok(self.exit),
        }
    }

    fn take(&mut self, share: usize, slot: usize, outcome: Outcome) -> Result<(), Failure> {
        if let (Some(path), Some(snapshot)) = (self.snapshot, &outcome.snapshot) {
            files::write_whole(path, snapshot)?;
        }
        if let Some(why) = &outcome.out_of_memory {
            self.progress.suspend(|| console::tell(why.trim_end()));
        }
        if let Some(reason) = &outcome.failure {
            let title = self.shares[share].title(slot);
            self.progress.suspend(|| console::tell(format_args!("{title}: {reason}")));
        }
        self.shares[share].take(slot, outcome)?;
        self.show_progress();
        self.finish_if_done(share)
    }

    fn show_progress(&self) {
        if self.progress.is_shown() {
            let (done, cases) = self.shares.iter().fold((0, 0), |(d, c), s| (d + s.done(), c + s.slots.len()));
            self.progress.done(done, cases);
        }
    }

    /// Writes a share that is done, and prints as far as all before are done too.
    fn finish_if_done(&mut self, share: usize) -> Result<(), Failure> {
        if !self.shares[share].is_done() {
            return Ok(());
        }
        let Written { report, fine, replaced } = self.shares[share].finish(&self.context)?;
        if !fine {
            self.exit = Exit::Failed;
        }
        if let Some(what) = replaced {
            self.progress.suspend(|| console::note(&what));
        }
        self.texts[share] = Some(report);
        while let Some(text) = self.texts.get_mut(self.printed).and_then(Option::take) {
            self.printed += 1;
            if !self.quiet {
                self.progress.suspend(|| console::print(&text))?;
            }
        }
        Ok(())
    }

    /// What has been done of shares that are not complete goes into files of their own. Says where it is, a line each.
    fn keep_what_is_done(&self) -> Result<String, Failure> {
        let mut text = String::new();
        for share in self.shares.iter().filter(|s| !s.is_done() && s.done() > 0) {
            share.write_partial()?;
            let (done, all) = (thousands(share.done() as u128), count(share.slots.len(), "case"));
            let _ = write!(text, "\n{}: {done} of {all} done, in {}", share.name, share.outputs.partial.display());
        }
        if !text.is_empty() {
            text.push_str("\nthe same command with --resume goes on from there");
        }
        Ok(text)
    }
}

/// A host run takes what it reserves from this machine. What is foreseen not to fit is not begun.
fn refuse_what_does_not_fit(shares: &[Share], cx: RuleContext<'_>, at_once: usize) -> Result<(), Failure> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    let mut needs = Vec::new();
    for share in shares {
        for (i, slot) in share.slots.iter().enumerate() {
            if let State::Waiting(case) = &slot.state {
                let rows = predict(&case.work, cx, case.allocator.clone());
                let (peak, reserved) = most(&rows);
                needs.push((reserved.max(peak), share.title(i)));
            }
        }
    }
    let mut refused: Vec<String> = needs.iter().filter_map(|(needed, title)| machine::lacks(title, *needed, available)).collect();
    needs.sort_by_key(|(needed, _)| std::cmp::Reverse(*needed));
    let together = needs.iter().take(at_once).map(|(needed, _)| needed).fold(0u64, |sum, n| sum.saturating_add(*n));
    if refused.is_empty() && together > available {
        let (needed, available) = (format_bytes(together), format_bytes(available));
        refused.push(format!("{at_once} cases at once may need {needed}, of which {available} are available: lower --jobs"));
    }
    if refused.is_empty() {
        return Ok(());
    }
    refused.push("nothing was run; `--device virtual` takes no memory and writes the same rows".to_string());
    Err(Failure::new(Exit::Failed, refused.join("\n")))
}
