//! Words that several reports share: places in the loop, counts, settings.

use crate::record::{At, Memory};

use super::figure::Figure;
use super::number::{signed_bytes, thousands};
use super::read::Settings;

/// `step 1 forward`, with the micro-step where it is not the first: `step 1.2 forward`.
#[must_use]
pub fn place(at: At) -> String {
    match (at.step, at.micro_step) {
        (0, _) => at.phase.to_string(),
        (step, 0 | 1) => format!("step {step} {}", at.phase),
        (step, micro) => format!("step {step}.{micro} {}", at.phase),
    }
}

/// The figures that were predicted otherwise than measured, each with its error: `peak +512 B`.
pub(super) fn errors(predicted: &Memory, measured: &Memory) -> Vec<String> {
    let errors = Figure::ALL.into_iter().map(|f| (f, f.error(predicted, measured)));
    errors.filter(|(_, error)| *error != 0).map(|(figure, error)| format!("{} {}", figure.name(), signed_bytes(error))).collect()
}

/// `1 row`, `1 300 rows`.
#[must_use]
pub fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", thousands(n as u128), if n == 1 { "" } else { "s" })
}

/// What a case was run with, in a line: `batch size 256, f32, adam`; what is as usual is not said.
#[must_use]
pub fn settings(settings: &Settings) -> String {
    let mut parts = Vec::new();
    parts.extend(settings.batch_size.map(|n| format!("batch size {}", thousands(u128::from(n)))));
    parts.extend(settings.dtype.clone());
    parts.extend(settings.optimizer.clone());
    parts.extend(settings.accumulation_steps.filter(|&n| n > 1).map(|n| format!("accumulated over {n} micro-steps")));
    match settings.checkpointing.as_deref() {
        None | Some("false") => {}
        Some("true") => parts.push("checkpointing".to_string()),
        Some(other) => parts.push(format!("checkpointing {other}")),
    }
    if settings.no_grad.as_deref() == Some("true") {
        parts.push("no_grad".to_string());
    }
    parts.join(", ")
}
