//! The program's entry: arguments to a command, its outcome to an exit code.

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use super::args::Color;
use super::{
    calibrate, check, completions, console, devices, diff, explain, export, fit, import, interrupt, man, merge, pack, plot, predict,
    replay, run, schema, selftest, summary,
};
use crate::whole;

const EXAMPLES: &str = "\
Examples:
  runner experiments/adamw.toml
  runner experiments --device virtual --out /tmp/results
  runner experiments/adam.toml --set train.batch_size=1,16,256
  runner experiments --device virtual --list
  runner predict experiments/adamw.toml --gpu a100-80gb
  runner fit experiments/adam.toml --gpu rtx3090
  runner explain experiments/adamw.toml
  runner check experiments
  runner export torch experiments/adamw.toml
  runner diff --base HEAD results
  runner plot results/adamw.csv
  runner summary experiments/adamw.toml
  runner replay trace.csv --allocator max_split_size_mb:32

Exit codes: 0 done; 1 a case failed or ran out of memory, predicted and measured differ, or the disk took no more; \
2 a file or an argument is wrong; 3 no such device; 130 interrupted, what was done is kept.";

/// Run declarative training experiments and write, per phase and in bytes, the GPU memory they take: measured beside predicted.
#[derive(Debug, Parser)]
#[command(name = "runner", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Args,
    /// When to colour what is printed
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    color: Color,
    /// Print no tables, reports, progress or notes: the exit code tells
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // one value a process
enum Command {
    Predict(predict::Args),
    Fit(fit::Args),
    Explain(explain::Args),
    Check(check::Args),
    Export(export::Args),
    Diff(diff::Args),
    Plot(plot::Args),
    Merge(merge::Args),
    Pack(pack::Args),
    Replay(replay::Args),
    Summary(summary::Args),
    Import(import::Args),
    Calibrate(calibrate::Args),
    Schema(schema::Args),
    Devices(devices::Args),
    Selftest(selftest::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The command whose name a path without an ending is nearly.
pub(super) fn command_like(path: &Path) -> Option<String> {
    let word = path.to_str().filter(|word| !word.contains(['.', '/', '\\']))?;
    let commands = Arguments::command();
    let names = commands.get_subcommands().map(|c| (strsim::jaro_winkler(word, c.get_name()), c.get_name()));
    let (likeness, name) = names.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.8).then(|| name.to_owned())
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    interrupt::listen();
    let exit = command_line();
    // Threads of an interrupted run may be writing.
    whole::abandon();
    exit
}

fn command_line() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.color.apply();
    if arguments.quiet {
        console::be_quiet();
    }
    let outcome = match &arguments.command {
        Some(Command::Predict(args)) => predict::run(args),
        Some(Command::Explain(args)) => explain::run(args),
        Some(Command::Check(args)) => check::run(args),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Fit(args)) => fit::run(args),
        Some(Command::Diff(args)) => diff::run(args),
        Some(Command::Plot(args)) => plot::run(args),
        Some(Command::Merge(args)) => merge::run(args),
        Some(Command::Pack(args)) => pack::run(args),
        Some(Command::Replay(args)) => replay::run(args),
        Some(Command::Summary(args)) => summary::run(args),
        Some(Command::Import(args)) => import::run(args),
        Some(Command::Calibrate(args)) => calibrate::run(args),
        Some(Command::Schema(args)) => schema::run(args),
        Some(Command::Devices(args)) => devices::run(args),
        Some(Command::Selftest(args)) => selftest::run(args),
        Some(Command::Completions(args)) => completions::run(args),
        Some(Command::Man(args)) => man::run(args),
        None => run::run(&arguments.run, arguments.quiet),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console::tell(failure.message.trim_end());
            failure.exit.into()
        }
    }
}
