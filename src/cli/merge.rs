//! `runner merge`: the CSVs of a sweep's shards back into one.

use std::path::{Path, PathBuf};

use crate::report::files::write_whole;
use crate::report::merge::{Part, merge};
use crate::report::shard::Shard;
use crate::report::source::{MOST_BYTES, stem};
use crate::report::words::count;
use crate::whole;

use super::exit::{Exit, Failure};
use super::{console, places};

const EXAMPLES: &str = "\
Examples:
  runner sweep.toml --shard 1/2     on one machine, writes results/sweep.shard-1-of-2.csv
  runner sweep.toml --shard 2/2     on another, writes results/sweep.shard-2-of-2.csv
  runner merge results/sweep.csv results/sweep.shard-*.csv

The outcome is what the sweep writes unsharded, byte for byte. Shards are known by their names; files that are \
called otherwise are taken in the order given, 1 to n. The .training.csv beside a shard is passed over. Missing, incomplete and doubled shards are refused.";

/// Join the CSVs of a sweep's shards
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The file to write
    #[arg(value_name = "OUT.csv")]
    out: PathBuf,
    /// The CSV of every shard
    #[arg(value_name = "SHARD.csv", required = true)]
    shards: Vec<PathBuf>,
}

/// Merges, writes, and says how much it was.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    places::check(args.shards.iter().map(PathBuf::as_path), [args.out.as_path()])?;
    let mut parts = Vec::with_capacity(args.shards.len());
    for path in args.shards.iter().filter(|p| !lies_beside(p)) {
        let bytes = whole::read(path, MOST_BYTES).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        parts.push(Part { path: path.display().to_string(), stem: stem(path), bytes });
    }
    let merged = merge(&parts).map_err(Failure::usage)?;
    write_whole(&args.out, &merged.bytes)?;
    let (cases, rows, shards) = (count(merged.cases, "case"), count(merged.rows, "row"), count(parts.len(), "shard"));
    console::print(&format!("{}: {cases}, {rows} from {shards}\n", args.out.display()))?;
    Ok(Exit::Done)
}

/// Whether the file is what lies beside a shard's results, which a pattern such as `*.csv` takes too.
fn lies_beside(path: &Path) -> bool {
    let stem = stem(path);
    [".training", ".partial"].iter().filter_map(|end| stem.strip_suffix(end)).any(|name| Shard::of_stem(name).is_some())
}
