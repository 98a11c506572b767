//! `runner import config.json`: an experiment from a Hugging Face configuration.

use std::path::{Path, PathBuf};

use super::exit::{Exit, Failure};
use super::{console, places};
use crate::experiment::import::{Choices, import};
use crate::report::files;
use crate::whole;

/// Make an experiment of a Hugging Face config.json (gpt2, llama, mistral, qwen2, bert, vit), with its true sizes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What the experiment language cannot express is told, and noted in the file.

Example:
  runner import config.json --length 1024 > llama.toml")]
pub(super) struct Args {
    /// The configuration
    #[arg(value_name = "config.json")]
    config: PathBuf,
    /// Where to write the experiment [default: stdout]
    #[arg(short, long, alias = "out", value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Positions of a sequence [default: the model's most, up to 2048]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    length: Option<u64>,
    /// Samples a micro-step
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    batch_size: u64,
}

/// No configuration is as large.
const MOST_BYTES: u64 = 64 << 20;

/// Writes or prints the experiment.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    places::check([args.config.as_path()], output)?;
    let shown = args.config.display();
    let text = whole::read_text(&args.config, MOST_BYTES).map_err(|e| Failure::usage(format!("{shown}: {e}")))?;
    let choices = Choices { length: args.length, batch_size: args.batch_size };
    let imported = import(&text, choices).map_err(|e| Failure::usage(format!("{shown}: {e}")))?;
    for missing in &imported.missing {
        console::tell(format_args!("not expressed: {missing}"));
    }
    match output {
        Some(path) => {
            files::write_whole(path, imported.text.as_bytes())?;
            console::print(&format!("{}\n", path.display()))?;
        }
        None => console::print_always(&imported.text)?,
    }
    Ok(Exit::Done)
}
