//! `runner export torch FILE`: a PyTorch script of the same experiment, so that anyone with PyTorch and a GPU can check what is
//! measured here. Nothing runs.

use std::path::{Path, PathBuf};

use super::torch::script;
use crate::cli::args::Changes;
use crate::cli::exit::{Exit, Failure};
use crate::cli::{console, load, places};
use crate::gpu::Gpu;
use crate::report::files::write_whole;

const EXAMPLES: &str = "\
Examples:
  runner export torch experiments/adamw.toml -o adamw.py
  python adamw.py > adamw.torch.csv
  runner diff adamw.torch.csv results/adamw.csv

The script needs PyTorch and a CUDA GPU, and prints the columns of a results file as PyTorch measures them; what only \
runner knows stays empty. Each case of a sweep runs in a process of its own. It exits with 1 where memory runs out.";

/// Write an experiment for other programs
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    target: Target,
}

#[derive(Debug, clap::Subcommand)]
enum Target {
    Torch(Torch),
}

/// Write the experiment as a stand-alone PyTorch script that measures itself
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct Torch {
    /// The experiment
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    changes: Changes,
    /// Where to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes it.
pub(in crate::cli) fn run(args: &Args) -> Result<Exit, Failure> {
    let Target::Torch(args) = &args.target;
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    places::check([args.file.as_path()], output)?;
    let gpu = Gpu::default_model();
    let text = script(&load::one(&args.file, &args.changes.overrides(), gpu, |mistakes| mistakes)?);
    match output {
        None => console::print_always(&text)?,
        Some(path) => {
            write_whole(path, text.as_bytes())?;
            console::print(&format!("{}\n", path.display()))?;
        }
    }
    Ok(Exit::Done)
}
