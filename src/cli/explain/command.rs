//! `runner explain FILE`: each layer, each phase's sum with its numbers, what is alive at the peak, and what rules of thumb say.
//! Nothing runs and nothing is written.

use serde_json::Value;

use super::json;
use super::text::{self, Extent};
use crate::cli::args::Files;
use crate::cli::exit::{Exit, Failure};
use crate::cli::{console, load};
use crate::ops::RuleContext;
use crate::predict::explain::explain;

const EXAMPLES: &str = "\
Examples:
  runner explain experiments/adamw.toml
  runner explain experiments/adam.toml --gpu t4 --set train.batch_size=4096
  runner explain experiments/adam.toml --json | jq '.[0].peak.items'

A figure such as `4 × 1 024` is bytes an element times elements; `→ 512` is the block that the allocator takes for it. `kept` \
is what of a layer's own tensors is alive once the loss exists; scratch is what one operator makes and frees by itself.

Iterations of a repeated block that are the same in every figure are one: `12 ×` before a layer says how many follow each other, its \
figures are those of each, and their sum stands below.

Exit code: 0 explained; 1 a case runs out of memory, explained up to there; 2 bad file or arguments.";

/// Explain where memory goes: by layer, by phase, at the peak, and against rules of thumb
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    files: Files,
    /// List every layer and every tensor, of equal iterations too
    #[arg(long)]
    all: bool,
    /// Write JSON, with every layer and every tensor
    #[arg(long, conflicts_with = "all")]
    json: bool,
}

/// Explains and prints.
pub(in crate::cli) fn run(args: &Args) -> Result<Exit, Failure> {
    let gpu = args.files.gpu;
    let scratch = args.files.scratch()?;
    let cx = RuleContext { gpu, scratch: &*scratch };
    let extent = if args.all { Extent::All } else { Extent::Folded };
    let mut exit = Exit::Done;
    let mut all = Vec::new();
    for experiment in load::load(&args.files, gpu)? {
        for case in &experiment.cases {
            let explanation = explain(&case.work, cx, &case.allocator);
            if explanation.out_of_memory().is_some() {
                exit = Exit::Failed;
            }
            if args.json {
                all.push(json::value(&experiment.name, &case.key, gpu, &explanation));
            } else {
                let name = format!("{} {}", experiment.name, case.key);
                let description = experiment.description.as_deref().unwrap_or_default();
                console::print(&text::render(name.trim_end(), description, gpu, &explanation, extent))?;
            }
        }
    }
    if args.json {
        console::print(&format!("{:#}\n", Value::Array(all)))?;
    }
    Ok(exit)
}
