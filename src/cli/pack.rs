//! `runner pack FILE OUT.tfrecord`: prepares the samples of an experiment's `[data]` once for all.

use std::path::PathBuf;

use crate::data::{self, PackError, Step};
use crate::experiment;
use crate::gpu::Gpu;

use super::args::Changes;
use super::exit::{Exit, Failure};
use super::{console, load, places};

const EXAMPLES: &str = "\
Example:
  runner pack experiments/pipeline_serial.toml digits.tfrecord

Then, in the experiment, `[data] source = { tfrecord = { file = \"digits.tfrecord\" } }` without `prepare`.";

/// Prepare an experiment's samples once for all: write them as TFRecord
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The experiment whose [data] says where samples come from and what is done to them
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT.tfrecord")]
    out: PathBuf,
    #[command(flatten)]
    changes: Changes,
}

/// Packs.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let experiment = experiment::load_with(&args.file, &args.changes.overrides(), Gpu::default_model())
        .map_err(|mistakes| Failure::usage(load::drawn(&mistakes)))?;
    let file = args.file.display();
    let [case] = &experiment.cases[..] else {
        let cases = experiment.cases.len();
        return Err(Failure::usage(format!("{file}: its sweep has {cases} cases, and one is packed; choose it with --set")));
    };
    let Some(feed) = &case.feed else {
        return Err(Failure::usage(format!("{file}: its batches are synthetic, so that there is nothing to pack")));
    };
    if let Some(step) = feed.settings.prepare.iter().find(|s| s.is_random()) {
        let message = format!("{file}: `{}` differs each time and cannot be done once for all; leave it for the run", step.name());
        return Err(Failure::usage(message));
    }
    places::check(feed.settings.files.paths().chain([args.file.as_path()]), [args.out.as_path()])?;
    let samples = data::pack(feed, &args.out).map_err(|e| match e {
        PackError::Data(error) => Failure::usage(error),
        PackError::Write(error) => error.into(),
    })?;
    let steps = feed.settings.prepare.iter().map(Step::name).collect::<Vec<_>>().join(", ");
    let prepared = if steps.is_empty() { String::new() } else { format!(", prepared by {steps}") };
    console::print(&format!("{samples} samples of {file}{prepared} -> {}\n", args.out.display()))?;
    Ok(Exit::Done)
}
