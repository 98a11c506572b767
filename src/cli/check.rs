//! `runner check experiments/`: runs again and compares with the results that are committed.
//!
//! Invariant: the folder of results is touched with --update only, and then only where something differs.

use std::path::PathBuf;

use crate::report::diff::{Verdict, compare, json, markdown, text};
use crate::report::files::{prepare_folder, write_whole};
use crate::report::source::{self, File};
use crate::whole::{self, TemporaryFolder};

use super::args::{DeviceName, Files};
use super::exit::{Exit, Failure};
use super::inputs::{self, Outputs, stem};
use super::{console, run};

const EXAMPLES: &str = "\
Examples:
  runner check experiments/                     against results/, on the virtual device
  runner check experiments/ --markdown          the differences, for a pull request
  runner check experiments/adam.toml --update   accept what is different now

Exit code: 0 the same, or accepted; 1 different; 2 bad file or arguments; 3 no such device.";

/// Run experiments again and compare with their committed results
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    /// The folder of the results to compare with
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// What computes: virtual, host, cuda (or cuda:1, …), auto
    #[arg(long, value_name = "DEVICE", default_value = "virtual")]
    device: DeviceName,
    /// Cases that run at once on host or virtual
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write the new results over those that differ
    #[arg(long)]
    update: bool,
    /// Write Markdown for a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write JSON, every change unfolded
    #[arg(long)]
    json: bool,
}

/// Runs, compares and prints.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::new(Exit::Failed, e);
    let folder = TemporaryFolder::new().map_err(|e| failed(&format!("cannot make a temporary folder: {e}")))?;
    let files = inputs::collect(&args.files.files)?;
    run::run(
        &run::Args {
            files: args.files.clone(),
            device: args.device,
            devices: Vec::new(),
            jobs: args.jobs,
            out: folder.path().to_path_buf(),
            snapshot: None,
            list: false,
            resume: false,
            resume_from: None,
            shard: None,
        },
        true,
    )?;
    let (mut before, mut after) = (source::Files::new(), source::Files::new());
    for name in files.iter().filter_map(|f| stem(f)) {
        let read = |path: PathBuf| -> Result<File, Failure> {
            let bytes = whole::read(&path, source::MOST_BYTES).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
            Ok(File { shown: source::printable(&path.display().to_string()), bytes })
        };
        after.insert(source::printable(name), read(Outputs::of(folder.path(), name).results)?);
        let committed = Outputs::of(&args.results, name).results;
        if committed.exists() {
            before.insert(source::printable(name), read(committed)?);
        }
    }
    let shown = args.results.display().to_string();
    let diff = compare((&shown, &before), ("now", &after)).map_err(Failure::usage)?;
    let verdict = Verdict::of(&diff, &[]);
    let output = match (args.json, args.markdown) {
        (true, _) => json::render(&diff, &verdict, &[]),
        (_, true) => markdown::render(&diff, &verdict, &[]),
        _ => text::render(&diff, &verdict, &[]),
    };
    console::print(&output)?;
    let stale: Vec<&String> =
        after.iter().filter(|(name, now)| before.get(*name).is_none_or(|b| b.bytes != now.bytes)).map(|(n, _)| n).collect();
    if stale.is_empty() {
        return Ok(Exit::Done);
    }
    if !args.update {
        if !args.json {
            console::print("accept with --update\n")?;
        }
        return Ok(Exit::Failed);
    }
    prepare_folder(&args.results)?;
    for name in stale {
        let path = Outputs::of(&args.results, name).results;
        write_whole(&path, &after[name].bytes)?;
        if !args.json {
            console::print(&format!("-> {}\n", path.display()))?;
        }
    }
    Ok(Exit::Done)
}
