//! `runner predict FILE…`: the table from shapes alone, and whether it fits. No device takes part and nothing is written.

use crate::experiment::{Case, Experiment};
use crate::meta::format_bytes;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::predict::Foreseen;
use crate::predict::room::{Room, room};
use crate::report::words::{count, place};
use crate::report::{CaseReport, Table, join};

use super::args::{Files, Size};
use super::exit::{Exit, Failure};
use super::{console, load, out_of_memory};

const EXAMPLES: &str = "\
Examples:
  runner predict experiments/adamw.toml
  runner predict experiments/adam.toml --gpu t4 --set train.batch_size=1,64,4096
  runner predict experiments/adam.toml --memory 64MiB

The table is that of a run in the memory named above it: the GPU's less its context and libraries, or --memory, \
which is what the allocator may reserve and nothing else; an experiment's own memory_limit counts where it is less. The last \
line says whether it is enough for the file's own number of steps; `runner fit` asks for training that goes on.

Exit code: 0 all of it fits; 1 some does not; 2 bad file or arguments.";

/// Predict memory from shapes alone: the table of a run, without running, and whether it fits
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    /// Bytes that the allocator may reserve, as in 24GiB [default: the GPU's memory less its context and libraries]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
}

/// Predicts and prints.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let gpu = args.files.gpu;
    let scratch = args.files.scratch()?;
    let cx = RuleContext { gpu, scratch: &*scratch };
    let memory = args.memory.map(|Size(bytes)| bytes);
    let limit = memory.unwrap_or(gpu.total_memory.saturating_sub(gpu.outside().total()));
    let experiments = load::load(&args.files, gpu)?;
    args.files.check_scratch(gpu, experiments.iter().flat_map(|e| &e.cases))?;
    let name = match memory {
        Some(bytes) => format!("{} for the allocator", format_bytes(bytes)),
        None => {
            let outside = gpu.outside();
            let how = if outside.is_measured { "measured" } else { "reckoned from an h200's" };
            let taken = format!("{} of context and libraries ({how})", format_bytes(outside.total()));
            format!("{}'s {} beside {taken}", gpu.name, format_bytes(gpu.total_memory))
        }
    };
    let budget = Budget { limit, name };
    for experiment in experiments {
        let asked = |case: &Case| room(&case.work, cx, &case.allocator, limit);
        let (rooms, foreseen): (Vec<Room>, Vec<Foreseen>) = experiment.cases.iter().map(asked).unzip();
        if rooms.iter().any(|r| r.shortage.is_some()) {
            exit = Exit::Failed;
        }
        let reported = |(case, rows): (&Case, Foreseen)| {
            let (rows, left_out) = rows.level();
            CaseReport { labels: load::labels(case), rows: join(&[], &rows), left_out }
        };
        let cases: Vec<CaseReport> = experiment.cases.iter().zip(foreseen).map(reported).collect();
        let table = Table {
            name: &experiment.name,
            description: experiment.description.as_deref().unwrap_or_default(),
            // A file's own limit is named below it, or by the file.
            place: &format!("predicted for {} in {} for the allocator", gpu.name, format_bytes(limit)),
            measured: false,
            cases: &cases,
            verdicts: &rooms.iter().map(short_verdict).collect::<Vec<_>>(),
        };
        console::print(&format!("{}{}\n\n", table.render(), verdict(&experiment, &rooms, &budget)))?;
    }
    Ok(exit)
}

/// What there is for every case that has no less of its own.
struct Budget {
    /// Bytes that the allocator may reserve.
    limit: u64,
    /// What it is called.
    name: String,
}

/// Whether there is room for a case, in a cell.
fn short_verdict(room: &Room) -> String {
    match &room.shortage {
        None => format!("fits, {}", left(room)),
        Some(shortage) => format!("no: {}", place(shortage.at)),
    }
}

/// What is left of the limit. Expandable segments grow by whole pages, and the last page may reach past it, as in PyTorch.
fn left(room: &Room) -> String {
    match room.limit.checked_sub(room.reserved) {
        Some(bytes) => format!("{} left", format_bytes(bytes)),
        None => format!("whole pages reach {} past the limit", format_bytes(room.reserved - room.limit)),
    }
}

/// Whether there is room, for all cases in a line.
fn verdict(experiment: &Experiment, rooms: &[Room], budget: &Budget) -> String {
    let lacking = rooms.iter().filter(|r| r.shortage.is_some()).count();
    let tightest = rooms.iter().enumerate().max_by_key(|(_, r)| (r.shortage.is_some(), r.reserved.saturating_sub(r.limit), r.reserved));
    let Some((i, tight)) = tightest else { return String::new() };
    // A file's own limit says less about the GPU than about what it wants to show.
    let of = if tight.limit == budget.limit { budget.name.clone() } else { format!("its memory_limit of {}", format_bytes(tight.limit)) };
    let case = &experiment.cases[i];
    let several = rooms.len() > 1;
    let reserved = format_bytes(tight.reserved);
    // As many as the file says: where training goes on, the cache may still grow.
    let steps = match &case.work {
        Work::Script(_) => String::new(),
        Work::Train(plan) => format!(" in {}", count(usize::try_from(plan.settings.steps).unwrap_or(usize::MAX), "step")),
    };
    if let Some(shortage) = &tight.shortage {
        let fit = match (several, lacking) {
            (false, _) => "does not fit".to_owned(),
            (true, 1) => format!("1 of {} does not fit", count(rooms.len(), "case")),
            (true, _) => format!("{lacking} of {} do not fit", count(rooms.len(), "case")),
        };
        let place = if several { format!("{} runs ", case.key) } else { String::new() };
        let out = out_of_memory::foreseen(shortage);
        format!("{fit} in {of}; {place}{out}; without a limit {reserved} would be reserved at most{steps}")
    } else {
        let fit = if several { format!("all {} fit", count(rooms.len(), "case")) } else { "fits".to_owned() };
        let place = if several { format!(" by {}", case.key) } else { String::new() };
        let left = left(tight);
        format!("{fit} in {of}; {reserved} reserved at most{place}{steps}, {left}")
    }
}
