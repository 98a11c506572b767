//! The command: arguments, and which outputs they ask for.
//!
//! Files have the columns of PyTorch recordings, so that one can be compared with the other byte for byte. With a recording's own
//! addresses, segments lie where the driver put them; a replay that asks for other segments than the recording is a mistake.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::super::args::{Calibration, Changes, Settings, Size, gpu_named};
use super::super::exit::{Exit, Failure};
use super::super::{console, places};
use super::compare;
use super::source::{self, Source, of_file};
use crate::alloc::{
    Allocator, AllocatorConfig, Backing, Placement, Recorded, StatsTable, events_csv, first_other_segment, memory_summary,
    recorded_segments, replay, warm_up,
};
use crate::gpu::{self, Gpu};
use crate::report::files::write_whole;
use crate::report::words::count;
use crate::whole;

const EXAMPLES: &str = "\
Examples:
  runner replay snapshot.pickle             one setting: PyTorch's memory_summary
  runner replay snapshot.pickle --allocator \"\" --allocator max_split_size_mb:64
  runner replay experiments/adamw.toml --memory-limit 90MB --allocator \"\"
  runner replay rmm.log --allocator \"\" --csv compared.csv

With several settings each is a row. Peaks are those of the whole history; fragmentation is the share of the peak reserved that the \
peak allocated would not have needed; a request that fails is counted, and the history goes on.

Exit code: 0 replayed, requests that failed among them or not; 1 a file cannot be written; 2 bad file or arguments.";

/// Replay a history of allocations through the caching allocator, under one setting or several
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct Args {
    /// The history: a PyTorch memory snapshot (pickle), a CSV of `op,id,bytes` (alloc, free, empty_cache, probe), a log of RMM's, or an
    /// experiment
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Allocator settings in PyTorch's notation, "" for its defaults, `env` for those in PYTORCH_CUDA_ALLOC_CONF; several are compared
    /// [default: the source's own]
    #[arg(long, value_name = "SETTINGS")]
    allocator: Vec<Settings>,
    /// Bytes that may be reserved at once, as in 24GiB
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<Size>,
    /// The GPU whose total memory counts
    #[arg(long, value_name = "NAME", default_value = gpu::DEFAULT, value_parser = gpu_named())]
    gpu: &'static Gpu,
    #[command(flatten)]
    calibration: Calibration,
    /// Of a snapshot of several GPUs, the one to replay
    #[arg(long, value_name = "N")]
    device_number: Option<usize>,
    #[command(flatten)]
    changes: Changes,
    /// Write the comparison, also of one setting
    #[arg(long, value_name = "COMPARED.csv")]
    csv: Option<PathBuf>,
    /// Put segments where this recording has them
    #[arg(long, value_name = "EVENTS.csv")]
    addresses: Option<PathBuf>,
    /// Write all statistics at each probe and at the end
    #[arg(long, value_name = "STATS.csv")]
    stats: Option<PathBuf>,
    /// Write every allocation, free and segment in order
    #[arg(long, value_name = "EVENTS.csv")]
    events: Option<PathBuf>,
}

/// Replays, writes the files asked for, and prints the summary or the comparison. A request that fails is a result: the first is told, the
/// others are counted, and the history goes on.
///
/// # Errors
/// A file cannot be read or written, or says what it may not. Nothing was replayed to the end then, or not everything written.
pub(in super::super) fn run(args: &Args) -> Result<Exit, Failure> {
    let inputs = [&args.addresses].into_iter().flatten().map(PathBuf::as_path).chain(args.calibration.file());
    let outputs = [&args.csv, &args.stats, &args.events].into_iter().flatten().map(PathBuf::as_path);
    places::check(inputs.chain([args.source.as_path()]), outputs)?;
    let source = source::read(&args.source, &args.changes.overrides(), (args.gpu, &args.calibration), args.device_number)?;
    for note in &source.notes {
        console::note(note);
    }
    let mut settings = args.allocator.clone();
    if settings.is_empty() {
        settings.push(Settings { text: source.own.to_string(), config: source.own.clone() });
    }
    for setting in &mut settings {
        setting.config.memory_limit = args.memory_limit.map(|Size(bytes)| bytes).or(source.own.memory_limit);
    }
    if settings.len() > 1 && (args.addresses.is_some() || args.stats.is_some() || args.events.is_some()) {
        return Err(Failure::usage("--addresses, --stats and --events are of one setting; several are only compared"));
    }
    if settings.len() > 1 || args.csv.is_some() {
        let total = args.gpu.total_memory;
        let outcomes: Vec<_> = settings.iter().map(|s| compare::outcome(&source, &s.text, &s.config, total)).collect();
        if let Some(path) = &args.csv {
            write_whole(path, &compare::csv(&outcomes))?;
        }
        if settings.len() > 1 {
            console::print(&compare::table(&outcomes))?;
            return Ok(Exit::Done);
        }
    }
    one(args, &source, settings.swap_remove(0).config)
}

/// One setting: the summary, and every file.
fn one(args: &Args, source: &Source, config: AllocatorConfig) -> Result<Exit, Failure> {
    let recording = match &args.addresses {
        Some(path) => {
            let text = whole::read_text(path, source::MOST_BYTES).map_err(|failure| of_file(path, failure))?;
            Some((path, recorded_segments(text.as_bytes()).map_err(|mistake| of_file(path, mistake))?))
        }
        None => None,
    };
    let total = args.gpu.total_memory;
    let backing: Box<dyn Backing> = match &recording {
        Some((_, segments)) => Box::new(Recorded::new(total, segments)),
        None => Box::new(Placement::new(total)),
    };
    let mut allocator = Allocator::new(config, backing);
    if source.warmed_up {
        warm_up(&mut allocator);
    }
    let events = Rc::new(RefCell::new(Vec::new()));
    if args.events.is_some() || recording.is_some() {
        let events = Rc::clone(&events);
        allocator.listen(Box::new(move |event| events.borrow_mut().push(event)));
    }
    let mut stats = StatsTable::default();
    let failures = replay(&source.trace, &mut allocator, |at, allocator| stats.push(at, allocator.stats()));

    let events = events.borrow();
    if let Some((path, segments)) = &recording
        && let Some(other) = first_other_segment(&events, segments)
    {
        return Err(of_file(path, format_args!("another trace or other settings: {other}")));
    }
    if let Some(path) = &args.stats {
        write_whole(path, stats.as_csv().as_bytes())?;
    }
    if let Some(path) = &args.events {
        write_whole(path, events_csv(&events).as_bytes())?;
    }
    if let Some((op, failure)) = failures.first() {
        console::tell(format_args!("{}: {failure}", place(&args.source, source, *op)));
    }
    if let [_, .., (last, _)] = &failures[..] {
        let more = count(failures.len() - 1, "more request");
        console::tell(format_args!("{more} failed, the last of them {}", place(&args.source, source, *last)));
    }
    console::print(&format!("{}{}\n", memory_summary(allocator.stats(), 0), compare::fragmentation(allocator.stats())))?;
    Ok(Exit::Done)
}

/// Where in its source an operation is: its line, or its name and number.
fn place(path: &Path, source: &Source, op: usize) -> String {
    let name = source.names.get(source.labels[op].name as usize).map(String::as_str).filter(|n| !n.is_empty());
    match ((source.line)(op), name) {
        (Some(line), _) => format!("{}: line {line}", path.display()),
        (None, Some(name)) => format!("{}: request {} ({name})", path.display(), op + 1),
        (None, None) => format!("{}: request {}", path.display(), op + 1),
    }
}
