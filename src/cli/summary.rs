//! `runner summary FILE…`: runs experiments and prints what `torch.cuda.memory_summary()` would print as their last line.
//!
//! Peaks are those of the whole run: taking rows resets none of them. Nothing is written.

use crate::alloc::memory_summary;
use crate::train::Outfit;

use super::args::{DeviceName, Files};
use super::device::Place;
use super::exit::{Exit, Failure};
use super::record::{self, Nobody};
use super::{console, load};

const EXAMPLES: &str = "\
Examples:
  runner summary experiments/adamw.toml
  runner summary experiments/adam.toml --allocator max_split_size_mb:32 --gpu t4

The summary is that of the moment before the script ends, its variables still alive, or of the failure where memory \
runs out. Of several cases each is preceded by its name.";

/// Run an experiment and print its allocator's statistics in the layout of torch.cuda.memory_summary()
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    /// What computes
    #[arg(long, value_name = "DEVICE", default_value = "virtual")]
    device: DeviceName,
}

/// Runs and prints.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let place = Place::choose(args.device, args.files.gpu, args.files.scratch()?)?;
    let experiments = load::load(&args.files, place.gpu())?;
    args.files.check_scratch(place.gpu(), experiments.iter().flat_map(|e| &e.cases))?;
    let several = experiments.iter().map(|e| e.cases.len()).sum::<usize>() > 1;
    let mut exit = Exit::Done;
    for experiment in &experiments {
        for case in &experiment.cases {
            let (recorder, ended) =
                record::run(&place, case, &Outfit { feed: case.feed.as_ref(), ..Outfit::default() }, false, &mut Nobody)?;
            let name = format!("{} {}", experiment.name, case.key);
            let name = name.trim_end();
            let stats = match (recorder.reached_end(), recorder.failure()) {
                (Some(end), _) => end.stats,
                (None, Some(failure)) => {
                    console::tell(format_args!("{name}: {}", failure.error));
                    exit = Exit::Failed;
                    failure.stats
                }
                (None, None) => {
                    let why = ended.stopped.unwrap_or_else(|| "the device failed".to_owned());
                    return Err(Failure::new(Exit::Failed, format!("{name}: {why}")));
                }
            };
            let heading = if several { format!("{name}\n") } else { String::new() };
            console::print(&format!("{heading}{}", memory_summary(&stats, 0)))?;
        }
    }
    Ok(exit)
}
