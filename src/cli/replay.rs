//! `runner replay`: an allocation trace through the allocator, and what PyTorch would have counted.
//!
//! Files have the columns of PyTorch recordings, so that one can be compared with the other byte for byte. With a recording's own
//! addresses, segments lie where the driver put them; a replay that asks for other segments than the recording is a mistake.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::alloc::{
    Allocator, AllocatorConfig, Backing, Placement, Recorded, StatsTable, Trace, events_csv, first_other_segment, memory_summary,
    recorded_segments, replay, warm_up,
};
use crate::gpu::{self, Gpu};
use crate::report::files::write_whole;

use super::args::gpu_named;
use super::exit::{Exit, Failure};

/// Replay an allocation trace through the caching allocator and print its memory summary
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The trace: a CSV of `op,id,bytes`; ops are alloc, free, empty_cache and probe
    trace: PathBuf,
    /// Allocator settings in PyTorch's notation, e.g. "max_split_size_mb:32,garbage_collection_threshold:0.8"
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true)]
    allocator: AllocatorConfig,
    /// Bytes that may be reserved at once
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<u64>,
    /// The GPU whose total memory counts
    #[arg(long, value_name = "NAME", default_value = gpu::DEFAULT, value_parser = gpu_named)]
    gpu: &'static Gpu,
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

/// Replays, writes the files asked for, and prints the summary. A request that fails is a result: it is told, and the trace goes on.
///
/// # Errors
/// A file cannot be read or written, or says what it may not. Nothing was replayed to the end then, or not everything written.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let trace = Trace::parse(&read(&args.trace)?).map_err(|mistake| of_file(&args.trace, mistake))?;
    let recording = match &args.addresses {
        Some(path) => {
            let segments = recorded_segments(read(path)?.as_bytes()).map_err(|mistake| of_file(path, mistake))?;
            Some((path, segments))
        }
        None => None,
    };
    let total = args.gpu.total_memory;
    let backing: Box<dyn Backing> = match &recording {
        Some((_, segments)) => Box::new(Recorded::new(total, segments)),
        None => Box::new(Placement::new(total)),
    };
    let mut config = args.allocator.clone();
    config.memory_limit = args.memory_limit;
    let mut allocator = Allocator::new(config, backing);
    warm_up(&mut allocator);

    let events = Rc::new(RefCell::new(Vec::new()));
    if args.events.is_some() || recording.is_some() {
        let events = Rc::clone(&events);
        allocator.listen(Box::new(move |event| events.borrow_mut().push(event)));
    }
    let mut stats = StatsTable::default();
    let failures = replay(&trace, &mut allocator, |at, allocator| stats.push(at, allocator.stats()));

    let events = events.borrow();
    if let Some((path, segments)) = &recording
        && let Some(other) = first_other_segment(&events, segments)
    {
        return Err(of_file(path, format_args!("another trace or other settings: {other}")));
    }
    if let Some(path) = &args.stats {
        write_whole(path, stats.as_csv().as_bytes()).map_err(Failure::usage)?;
    }
    if let Some(path) = &args.events {
        write_whole(path, events_csv(&events).as_bytes()).map_err(Failure::usage)?;
    }
    for (op, failure) in failures {
        // The header is line 1, so operation 0 is line 2.
        anstream::eprintln!("{}: line {}: {failure}", args.trace.display(), op + 2);
    }
    anstream::print!("{}", memory_summary(allocator.stats(), 0));
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|failure| of_file(path, failure))
}

fn of_file(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::usage(format_args!("{}: {what}", path.display()))
}
