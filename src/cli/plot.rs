//! `runner plot`: a results file as a picture.
//!
//! The page needs no network and no other file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::gpu::{CATALOGUE, Gpu};
use crate::report::files::write_whole;
use crate::report::plot::Plot;
use crate::report::plot::sweep::{Limit, Limits};
use crate::report::read;
use crate::report::source::stem;

use super::args::gpu_named;
use super::console;
use super::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  runner plot results/adamw.csv                              writes results/adamw.html
  runner plot results/adamw.csv --svg -o adamw.svg           the picture alone
  runner plot results/sweep.csv --gpu rtx3090 --gpu t4       with these GPUs' memory as lines

One case is drawn over its phases, a sweep along its axis with most values. Without --gpu a sweep shows the GPUs of
the catalogue whose memory lies among its figures.";

/// Draw a results file as a page or an SVG
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The results
    #[arg(value_name = "RESULTS.csv")]
    results: PathBuf,
    /// Where to write, - for stdout [default: beside the results]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the picture alone, as SVG
    #[arg(long)]
    svg: bool,
    /// Show this GPU's memory as a line (repeatable, or joined by commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = gpu_named)]
    gpu: Vec<&'static Gpu>,
    /// Draw a sweep along this axis, as in train.batch_size
    #[arg(long, value_name = "KEY")]
    axis: Option<String>,
}

/// Draws, writes, and says where.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
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
    let output = args.output.clone().unwrap_or_else(|| args.results.with_extension(if args.svg { "svg" } else { "html" }));
    if output == Path::new("-") {
        console::print(&text)?;
        return Ok(Exit::Done);
    }
    if same_file(&output, &args.results) {
        return Err(Failure::usage(format!("{} would be written over the results", output.display())));
    }
    write_whole(&output, text.as_bytes()).map_err(|e| Failure::new(Exit::Failed, e))?;
    console::print(&format!("{}\n", output.display()))?;
    Ok(Exit::Done)
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || fs::canonicalize(a).ok().zip(fs::canonicalize(b).ok()).is_some_and(|(a, b)| a == b)
}
