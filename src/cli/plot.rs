//! `runner plot`: a results file as a picture, what a run did with its time, or a history as a page of memory over events.
//!
//! The page needs no network and no other file.

use std::path::{Path, PathBuf};

use crate::alloc::{AllocatorConfig, Dump, TRACE_HEADER};
use crate::gpu::{CATALOGUE, DEFAULT, Gpu};
use crate::report::files::write_whole;
use crate::report::plot::sweep::{Limit, Limits};
use crate::report::plot::time_page::{self, Cases};
use crate::report::plot::{Plot, memory};
use crate::report::source::MOST_BYTES;
use crate::report::source::stem;
use crate::report::{read, training};
use crate::train::Outfit;
use crate::whole;

use super::args::{Calibration, Changes, DeviceName, Settings, gpu_named};
use super::device::Place;
use super::exit::{Exit, Failure};
use super::names::Names;
use super::record::{self, Nobody};
use super::replay::{self, Content};
use super::{console, load, places, timeline};

const EXAMPLES: &str = "\
Examples:
  runner plot results/adamw.csv                        writes results/adamw.html
  runner plot results/adamw.csv --svg -o adamw.svg     the picture alone
  runner plot results/sweep.csv --gpu rtx3090,t4       these GPUs' memory as lines
  runner plot results/NAME.training.csv                what the time went to
  runner plot snapshot.pickle                          memory over events, hole by hole
  runner plot trace.csv --allocator \"\"                 a trace under these settings
  runner plot experiments/adamw.toml                   a virtual run, every tensor by name

One case is drawn over its phases, a sweep along its axis with most values. Without --gpu a sweep shows the GPUs of \
the catalogue whose memory lies among its figures.";

/// Draw a results file, or a history of allocations, as a page
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The results; or a PyTorch memory snapshot, a trace, a log of RMM's or an experiment, as `runner replay` takes them
    #[arg(value_name = "FILE")]
    results: PathBuf,
    /// Where to write, - for stdout [default: beside the results; of an experiment in this folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the picture alone, as SVG
    #[arg(long)]
    svg: bool,
    /// Show this GPU's memory as a line (repeatable, or joined by commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = gpu_named())]
    gpu: Vec<&'static Gpu>,
    /// Draw a sweep along this axis, as in train.batch_size
    #[arg(long, value_name = "KEY")]
    axis: Option<String>,
    /// Of a trace, a log or an experiment: the allocator's settings in PyTorch's notation
    #[arg(long, value_name = "SETTINGS")]
    allocator: Option<Settings>,
    /// Of a snapshot of several GPUs, the one to draw
    #[arg(long, value_name = "N")]
    device_number: Option<usize>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    calibration: Calibration,
}

/// Draws, writes, and says where.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.results.is_dir() {
        return Err(Failure::usage(format!("{}: is a folder; a page shows one file of it", args.results.display())));
    }
    if !is_experiment(&args.results) {
        args.calibration.none_of(&args.results)?;
    }
    if let Some(cases) = times(&args.results)? {
        if args.axis.is_some() {
            return Err(Failure::usage("--axis is for results; what a run did with its time is drawn over time"));
        }
        let name = stem(&args.results);
        let text = if args.svg { time_page::svg(&name, &cases) } else { time_page::html(&name, &cases) };
        return write(args, &text);
    }
    if let Some(page) = history(args)? {
        return write(args, &page);
    }
    let results = read::read(&args.results).map_err(Failure::usage)?;
    if results.cases.is_empty() {
        return Err(Failure::usage(format!("{}: there is no row to draw", args.results.display())));
    }
    let asked = !args.gpu.is_empty();
    let gpus: Vec<&Gpu> = if asked { args.gpu.clone() } else { CATALOGUE.iter().collect() };
    let all = gpus.into_iter().map(|g| Limit { name: g.name.to_string(), bytes: g.total_memory }).collect();
    let name = stem(&args.results);
    let plot = Plot { name: &name, results: &results, limits: Limits { all, asked }, axis: args.axis.as_deref() };
    let text = if args.svg { plot.svg() } else { plot.html() }.map_err(Failure::usage)?;
    write(args, &text)
}

/// What a run did with its time; `None` where the file is another one.
///
/// # Errors
/// The run was not measured, or the file is damaged.
fn times(path: &Path) -> Result<Option<Cases>, Failure> {
    if path.extension().is_none_or(|e| e != "csv") {
        return Ok(None);
    }
    let bytes = whole::read(path, MOST_BYTES).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
    if !training::is_training(&bytes) {
        return Ok(None);
    }
    let refuse = |what: &str| Failure::usage(format!("{}: {what}", path.display()));
    let cases = training::parse(&bytes).ok_or_else(|| refuse("a cell of it is not what this program writes"))?;
    if !cases.values().flatten().any(|m| m.times.computing.is_some()) {
        return Err(refuse(
            "it tells no times: they are measured where the experiment has `[data]`, `[log]` or `[save]`, and something computes",
        ));
    }
    Ok(Some(cases))
}

/// The page of a history; `None` where the file holds results.
fn history(args: &Args) -> Result<Option<String>, Failure> {
    let path = &args.results;
    let gpu = args.gpu.first().copied().unwrap_or(Gpu::named(DEFAULT).expect("the default GPU is in the catalogue"));
    let total = gpu.total_memory;
    let name = stem(path);
    let content = replay::content(path)?;
    let (timeline, about) = match &content {
        Content::Trace(text) if !text.starts_with(TRACE_HEADER) => return Ok(None),
        Content::Pickle(bytes) => {
            let dump = Dump::from_pickle(bytes).map_err(|e| replay::of_file(path, e))?;
            let device = replay::device_of(&dump, args.device_number).map_err(|e| replay::of_file(path, e))?;
            (timeline::of_dump(&dump, device, total).map_err(|e| replay::of_file(path, e))?, format!("snapshot, device {device}"))
        }
        Content::Trace(_) | Content::Rmm(_) => {
            let source = replay::read(path, &args.changes.overrides(), (gpu, &args.calibration), None)?;
            let config = args.allocator.as_ref().map_or(&source.own, |s| &s.config);
            (timeline::of_replay(&source, config, total), settings_in_words(config))
        }
        Content::Experiment => {
            let mut case = replay::one_case(path, &args.changes.overrides(), gpu)?;
            if let Some(settings) = &args.allocator {
                load::under(settings, &mut case);
            }
            let place = Place::choose(DeviceName::Virtual, gpu, args.calibration.scratch(gpu)?)?;
            let (recorder, _) = record::run(&place, &case, &Outfit { feed: case.feed.as_ref(), ..Outfit::default() }, true, &mut Nobody)?;
            (
                timeline::of_run(&recorder, &Names::of(&case.work)),
                format!("{}, {}", place.facts().place, settings_in_words(&case.allocator)),
            )
        }
    };
    if args.svg || args.axis.is_some() {
        return Err(Failure::usage("--svg and --axis are for results; a history is drawn as a page"));
    }
    let about = format!("{about} · {} events", timeline.moments.len());
    Ok(Some(memory::html(&name, &about, &timeline)))
}

fn settings_in_words(config: &AllocatorConfig) -> String {
    let settings = config.to_string();
    if settings.is_empty() { "PyTorch's default allocator settings".to_owned() } else { format!("allocator {settings}") }
}

fn is_experiment(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml")
}

/// Writes what was drawn and says where.
fn write(args: &Args, text: &str) -> Result<Exit, Failure> {
    let beside = args.results.with_extension(if args.svg { "svg" } else { "html" });
    let default = || if is_experiment(&args.results) { beside.file_name().map_or(beside.clone(), PathBuf::from) } else { beside.clone() };
    let output = args.output.clone().unwrap_or_else(default);
    if output == Path::new("-") {
        console::print_always(text)?;
        return Ok(Exit::Done);
    }
    places::check([args.results.as_path()].into_iter().chain(args.calibration.file()), [output.as_path()])?;
    write_whole(&output, text.as_bytes())?;
    console::print(&format!("{}\n", output.display()))?;
    Ok(Exit::Done)
}
