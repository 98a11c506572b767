//! `runner predict FILE…`: the table from shapes alone. No device takes part and nothing is written.

use crate::ops::RuleContext;
use crate::record::Status;
use crate::report::{CaseReport, Table, join};

use super::args::Files;
use super::exit::{Exit, Failure};
use super::{console, load};

const EXAMPLES: &str = "\
Examples:
  runner predict experiments/adamw.toml
  runner predict experiments/adam.toml --gpu t4 --set train.batch_size=1,64,4096";

/// Predict memory from shapes alone: the table of a run, without running
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
}

/// Predicts and prints.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let scratch = args.files.scratch()?;
    let cx = RuleContext { gpu: args.files.gpu, scratch: &*scratch };
    for experiment in load::load(&args.files, args.files.gpu)? {
        let cases: Vec<CaseReport> = experiment
            .cases
            .iter()
            .map(|case| {
                let predicted = crate::predict::predict(&case.work, cx, case.allocator.clone());
                CaseReport { labels: load::labels(case), rows: join(&[], &predicted) }
            })
            .collect();
        if cases.iter().flat_map(|c| &c.rows).any(|r| r.status() == Status::Oom) {
            exit = Exit::Failed;
        }
        let table = Table {
            name: &experiment.name,
            description: experiment.description.as_deref().unwrap_or_default(),
            place: &format!("predicted for {}", args.files.gpu.name),
            measured: false,
            cases: &cases,
        };
        console::print(&table.render())?;
    }
    Ok(exit)
}
