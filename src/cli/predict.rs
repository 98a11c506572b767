//! `runner predict FILE…`: the table from shapes alone, and whether it fits. No device takes part and nothing is written.

use crate::experiment::Experiment;
use crate::gpu::Gpu;
use crate::meta::format_bytes;
use crate::ops::RuleContext;
use crate::predict::foresee;
use crate::predict::room::{Room, room, roomy};
use crate::report::words::count;
use crate::report::{CaseReport, Table, join};

use super::args::{Files, Size};
use super::exit::{Exit, Failure};
use super::{console, load, out_of_memory};

const EXAMPLES: &str = "\
Examples:
  runner predict experiments/adamw.toml
  runner predict experiments/adam.toml --gpu t4 --set train.batch_size=1,64,4096
  runner predict experiments/adam.toml --memory 64MiB

The last line says whether the GPU has room for it, beside its context and libraries, or whether --memory is enough, \
which is what the allocator may reserve and nothing else: then the table is that of a run in so much memory.

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
    let unlimited = roomy(gpu);
    let experiments = load::load(&args.files, gpu)?;
    args.files.check_scratch(gpu, experiments.iter().flat_map(|e| &e.cases))?;
    for experiment in experiments {
        let cases: Vec<CaseReport> = experiment
            .cases
            .iter()
            .map(|case| {
                let predicted = match memory {
                    None => foresee(&case.work, cx, case.allocator.clone()),
                    Some(_) => {
                        let limit = case.allocator.limit(gpu.total_memory).map_or(limit, |own| own.min(limit));
                        foresee(&case.work, RuleContext { gpu: &unlimited, ..cx }, case.allocator.with_limit(Some(limit)))
                    }
                };
                let (rows, left_out) = predicted.level();
                CaseReport { labels: load::labels(case), rows: join(&[], &rows), left_out }
            })
            .collect();
        let rooms: Vec<Room> = experiment.cases.iter().map(|case| room(&case.work, cx, &case.allocator, limit)).collect();
        if rooms.iter().any(|r| r.shortage.is_some()) {
            exit = Exit::Failed;
        }
        let table = Table {
            name: &experiment.name,
            description: experiment.description.as_deref().unwrap_or_default(),
            place: &format!("predicted for {}", gpu.name),
            measured: false,
            cases: &cases,
        };
        console::print(&format!("{}{}\n\n", table.render(), verdict(&experiment, &rooms, gpu, memory)))?;
    }
    Ok(exit)
}

/// Whether there is room, for all cases in a line.
fn verdict(experiment: &Experiment, rooms: &[Room], gpu: &Gpu, memory: Option<u64>) -> String {
    let outside = gpu.outside();
    let how = if outside.is_measured { "measured" } else { "reckoned from an h200's" };
    let besides = format!("beside {} of context and libraries ({how})", format_bytes(outside.total()));
    let fitting = rooms.iter().filter(|r| r.shortage.is_none()).count();
    let tightest = rooms.iter().enumerate().max_by_key(|(_, r)| (r.shortage.is_some(), r.reserved.saturating_sub(r.limit), r.reserved));
    let Some((i, tight)) = tightest else { return String::new() };
    // A file's own limit says less about the GPU than about what it wants to show.
    let of = match memory {
        Some(bytes) if tight.limit == bytes => format!("{} for the allocator", format_bytes(bytes)),
        None if tight.limit == gpu.total_memory.saturating_sub(outside.total()) => {
            format!("{}'s {} {besides}", gpu.name, format_bytes(gpu.total_memory))
        }
        _ => format!("its memory_limit of {}", format_bytes(tight.limit)),
    };
    let case = &experiment.cases[i].key;
    let (place, all) = if rooms.len() == 1 {
        (String::new(), String::new())
    } else {
        (format!("in {case} "), format!(": {fitting} of {}", count(rooms.len(), "case")))
    };
    let reserved = format_bytes(tight.reserved);
    if let Some(shortage) = &tight.shortage {
        let out = out_of_memory::foreseen(shortage);
        format!("does not fit in {of}{all}; {place}{out}; without a limit {reserved} would be reserved at most")
    } else {
        let left = format_bytes(tight.limit - tight.reserved);
        let place = if place.is_empty() { place } else { format!(", {}", place.trim_end()) };
        format!("fits in {of}{all}; {reserved} reserved at most{place}, {left} left")
    }
}
