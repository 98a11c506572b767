//! The switches that would make a case fit that ran out of memory, by prediction, the cheapest first.

use std::path::Path;

use super::switches::{LOWER_PRECISION, SAME_BATCH, SAME_BATCH_BUT_NORM, Switch, switches};
use super::trial::{STEPS_OF_TRAINING_THAT_GOES_ON, Trial};
use crate::cli::args::Told;
use crate::experiment::{Case, Overrides};
use crate::gpu::Gpu;
use crate::meta::format_bytes;
use crate::predict::room::{ends_well, most};

/// How many are told.
const TOLD: usize = 4;

/// What would fit into `limit` bytes, each in words. Of a case whose batches come from files nothing is tried.
pub(in crate::cli) fn cheapest(experiment: &str, case: &Case, (gpu, scratch): (&Gpu, &Told), limit: u64) -> Vec<String> {
    let Some(text) = toml::to_string(&case.resolved).ok().filter(|_| case.feed.is_none()) else { return Vec::new() };
    let base = Trial {
        name: experiment.to_owned(),
        text,
        folder: Path::new("").to_path_buf(),
        overrides: Overrides::default(),
        gpu: gpu.clone(),
        scratch,
        limit,
        steps: STEPS_OF_TRAINING_THAT_GOES_ON,
    };
    let mut list = switches(&base, &case.resolved);
    list.sort_by_key(cost);
    list.iter().filter_map(fits).take(TOLD).collect()
}

/// What a switch costs, cheap first: nothing, a slower step, a slower backward pass, precision, another result.
fn cost(switch: &Switch<'_>) -> u32 {
    let sets = |key: &str| switch.trial.overrides.set.iter().any(|s| s.starts_with(key));
    match switch.note {
        "" if sets("allocator.") => 0,
        "" if !sets("train.checkpointing") => 1,
        "" => 3,
        SAME_BATCH | SAME_BATCH_BUT_NORM => 2,
        LOWER_PRECISION => 4,
        _ => 5,
    }
}

fn fits(switch: &Switch<'_>) -> Option<String> {
    let case = switch.trial.read().case(&[]).ok()?;
    let rows = switch.trial.predict(&case.work, case.allocator.with_limit(Some(switch.trial.limit)));
    let (peak, reserved) = most(rows.once());
    let note = if switch.note.is_empty() { String::new() } else { format!(" ({})", switch.note) };
    ends_well(rows.once()).then(|| format!("{}{note}: peak {}, reserved {}", switch.name, format_bytes(peak), format_bytes(reserved)))
}
