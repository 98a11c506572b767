//! From the command line to experiments that are ready to run, or to every mistake in all of them.

use std::path::Path;

use anstream::AutoStream;

use crate::experiment::{self, Diagnostics, Experiment, Overrides};
use crate::gpu::Gpu;
use crate::meta::format_bytes;
use crate::model::{Checkpointing, Work};
use crate::record::DeviceMemory;
use crate::report::{Labels, TrainingLabels};

use super::args::{Files, Settings};
use super::exit::Failure;
use super::inputs;

/// Loads all files, for a GPU.
///
/// # Errors
/// The mistakes of every file, drawn.
pub(super) fn load(files: &Files, gpu: &Gpu) -> Result<Vec<Experiment>, Failure> {
    let mut experiments = Vec::new();
    let mut mistakes = Vec::new();
    let overrides = files.changes.overrides();
    for file in inputs::collect(&files.files)? {
        match experiment::load_with(&file, &overrides, gpu) {
            Ok(mut experiment) => {
                if let Some(settings) = &files.allocator {
                    experiment.cases.iter_mut().for_each(|case| under(settings, case));
                }
                experiments.push(experiment);
            }
            Err(diagnostics) => mistakes.push(drawn(&diagnostics)),
        }
    }
    if mistakes.is_empty() { Ok(experiments) } else { Err(Failure::usage(mistakes.join("\n"))) }
}

/// Loads the one experiment of a command that takes no more; what is wrong is told as `tell` puts it.
///
/// # Errors
/// A folder, or the file's mistakes, drawn.
pub(super) fn one(
    file: &Path,
    overrides: &Overrides,
    gpu: &Gpu,
    tell: impl FnOnce(Diagnostics) -> Diagnostics,
) -> Result<Experiment, Failure> {
    if file.is_dir() {
        return Err(Failure::usage(format!("{}: is a folder; here goes one experiment, a .toml file", file.display())));
    }
    inputs::collect(&[file.to_path_buf()])?;
    experiment::load_with(file, overrides, gpu).map_err(|mistakes| Failure::usage(drawn(&tell(mistakes))))
}

/// Puts a case under other allocator settings than its file's. Its memory limit stays.
pub(super) fn under(settings: &Settings, case: &mut experiment::Case) {
    let limit = std::mem::replace(&mut case.allocator, settings.config.clone()).memory_limit;
    case.allocator.memory_limit = limit;
    let mut table = toml::Table::new();
    let kept = case.resolved.get("allocator").and_then(|t| t.get("memory_limit")).cloned();
    table.extend(kept.map(|limit| ("memory_limit".to_owned(), limit)));
    table.insert("settings".to_owned(), settings.text.clone().into());
    case.resolved.insert("allocator".to_owned(), table.into());
}

/// Mistakes as stderr takes them.
pub(super) fn drawn(mistakes: &Diagnostics) -> String {
    mistakes.render(AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never)
}

/// What the CSV calls a case.
pub(super) fn labels(case: &experiment::Case) -> Labels {
    let training = match &case.work {
        Work::Script(_) => None,
        Work::Train(plan) => Some(TrainingLabels {
            batch_size: plan.settings.batch_size,
            dtype: plan.settings.dtype,
            optimizer: plan.settings.optimizer.map(|o| o.name()),
            accumulation_steps: plan.settings.accumulation_steps,
            checkpointing: match plan.settings.checkpointing {
                Checkpointing::Off => "false".to_string(),
                Checkpointing::EveryLayer => "true".to_string(),
                Checkpointing::Segments(n) => format!("segments={n}"),
            },
            no_grad: plan.settings.no_grad,
        }),
    };
    Labels { case: case.key.clone(), training }
}

/// How many micro-steps a case has, for the progress bar; a script has none.
pub(super) fn micro_steps(work: &Work) -> u64 {
    match work {
        Work::Script(_) => 0,
        Work::Train(plan) => (plan.settings.steps - plan.settings.done).saturating_mul(plan.settings.accumulation_steps),
    }
}

/// What a GPU held at a case's end, as a line: the parts that add up to what is used.
pub(super) fn in_words(held: &DeviceMemory) -> String {
    let of = |bytes: u64| format_bytes(bytes);
    let others = if held.before_context > 0 { format!("{} of others + ", of(held.before_context)) } else { String::new() };
    let loaded = if held.loaded > 0 { format!("{} loaded while training + ", of(held.loaded)) } else { String::new() };
    let sign = if held.remainder < 0 { '-' } else { '+' };
    format!(
        "device memory: {} used = {others}{} context + {} libraries and kernels + {loaded}{} reserved {sign} {}\n",
        of(held.used),
        of(held.context),
        of(held.libraries),
        of(held.reserved),
        of(held.remainder.unsigned_abs()),
    )
}
