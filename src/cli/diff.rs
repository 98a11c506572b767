//! `runner diff`: two versions of results against each other.
//!
//! Nothing is run and nothing is written but the comparison on stdout.

use std::io;
use std::path::{Path, PathBuf};

use crate::report::committed;
use crate::report::diff::{Threshold, Verdict, compare, json, markdown, text};
use crate::report::source::{self, Files};

use super::console;
use super::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  runner diff old.csv new.csv                  two files
  runner diff results-main/ results/           two folders, files paired by name
  runner diff --base HEAD                      results/ against the last commit
  runner diff --base main --markdown results/  for a pull request
  runner diff --base main --fail-on peak:1% --fail-on allocated:0

Rows are paired by experiment, sweep point and place in the loop. Cases whose batch size, dtype, optimizer, \
accumulation, checkpointing or no_grad differ are named as not comparable. A figure that only one version has \
(a PyTorch script predicts nothing) is left out.

--fail-on bounds growth, row by row, of what was measured (of what was predicted, where nothing was measured): \
by per cent or bytes (B, KiB, MiB, GiB, KB, MB, GB). New cases pass; a case or row that is gone, is not \
comparable or newly runs out of memory fails.

Exit code: 0 the same (with --fail-on: within the limits), 1 different (over a limit), 2 bad file or arguments.";

/// Compare two versions of results, to the byte
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Two results files or two folders, the older first; with --base one, or none for results/
    #[arg(value_name = "RESULTS")]
    paths: Vec<PathBuf>,
    /// Compare with what this commit has at the same path
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// Write Markdown for a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write JSON, every change unfolded
    #[arg(long)]
    json: bool,
    /// Fail only where FIGURE (allocated, peak or reserved) grows by more than LIMIT, as in peak:1% or reserved:64MiB
    #[arg(long, value_name = "FIGURE:LIMIT")]
    fail_on: Vec<Threshold>,
}

/// Compares and prints.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let (before, after) = versions(args)?;
    let diff = compare((&before.0, &before.1), (&after.0, &after.1)).map_err(Failure::usage)?;
    let verdict = Verdict::of(&diff, &args.fail_on);
    let output = match (args.json, args.markdown) {
        (true, _) => json::render(&diff, &verdict, &args.fail_on),
        (_, true) => markdown::render(&diff, &verdict, &args.fail_on),
        _ => text::render(&diff, &verdict, &args.fail_on),
    };
    console::print(&output)?;
    let good = if args.fail_on.is_empty() { diff.same() } else { verdict.passes() };
    Ok(if good { Exit::Done } else { Exit::Failed })
}

/// A version's results and what it is called.
type Version = (String, Files);

fn versions(args: &Args) -> Result<(Version, Version), Failure> {
    let shown = |path: &Path| path.display().to_string();
    match (&args.base, &args.paths[..]) {
        (Some(revision), [] | [_]) => {
            let path = args.paths.first().map_or(Path::new("results"), PathBuf::as_path);
            let before = committed::at(revision, path).map_err(Failure::usage)?;
            let after = match source::on_disk(path) {
                // Everything that the commit has there is gone.
                Err(e) if e.source.kind() == io::ErrorKind::NotFound && !before.is_empty() => Files::new(),
                files => files.map_err(Failure::usage)?,
            };
            Ok(((format!("{revision}:{}", shown(path)), before), (shown(path), after)))
        }
        (None, [before, after]) => {
            let read = |path| source::on_disk(path).map_err(Failure::usage);
            let (mut old, mut new) = (read(before)?, read(after)?);
            match (before.is_dir(), after.is_dir()) {
                (true, false) => return Err(Failure::usage(format!("{} is a folder and {} is none", shown(before), shown(after)))),
                (false, true) => return Err(Failure::usage(format!("{} is a folder and {} is none", shown(after), shown(before)))),
                (true, true) => {}
                (false, false) => {
                    // Two files are a pair whatever they are called.
                    let (a, b) = (source::stem(before), source::stem(after));
                    let name = if a == b { a } else { format!("{a} → {b}") };
                    for files in [&mut old, &mut new] {
                        *files = std::mem::take(files).into_values().map(|f| (name.clone(), f)).collect();
                    }
                }
            }
            Ok(((shown(before), old), (shown(after), new)))
        }
        _ => Err(Failure::usage("diff takes two results files or two folders, or --base REVISION and one of them")),
    }
}
