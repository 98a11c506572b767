//! How busy the device was kept, and the one thing that held it back, with the setting that would help.
//!
//! Figures are sums over all micro-steps but the first, which also pays for what is made once.

use crate::meta::format_bytes;
use crate::record::MicroStep;

/// Below this share of the time, nothing is worth a word.
const SLIGHT: f64 = 0.02;

/// Something that the device waits for.
struct Hindrance {
    share: f64,
    /// In words, after "held back by".
    what: &'static str,
    advice: String,
}

/// A sentence about these micro-steps of a run of that experiment, all defaults written out, on `cuda` or `host`; `None` where there is no
/// time to speak of.
#[must_use]
pub fn sentence(steps: &[MicroStep], experiment: &toml::Table, device: &str) -> Option<String> {
    let steps = if steps.len() > 1 { &steps[1..] } else { steps };
    let sum = |of: fn(&MicroStep) -> f64| steps.iter().map(of).sum::<f64>();
    let whole = sum(|m| m.seconds);
    if whole <= 0.0 {
        return None;
    }
    let busy = busy_share(steps);
    // While the device computes, nothing that the program waits for holds it back.
    let share = |of: fn(&MicroStep) -> f64| (sum(of) / whole).min(1.0 - busy);
    // Workers that would prepare a batch while the rest of a step runs.
    let needed = sum(|m| m.times.preparing) / (whole - sum(|m| m.times.waiting)).max(1e-9);
    let hindrances = [
        Hindrance { share: share(|m| m.times.waiting), what: "waiting for batches", advice: for_waiting(experiment, needed) },
        Hindrance { share: share(|m| m.times.copying), what: "copying batches to the device", advice: for_copying(experiment) },
        Hindrance { share: share(|m| m.times.logging), what: "reading and printing losses", advice: for_every(experiment, "log") },
        Hindrance { share: share(|m| m.times.saving), what: "taking saves", advice: for_every(experiment, "save") },
    ];
    let worst = hindrances.into_iter().rev().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let rest = if worst.share < SLIGHT {
        "nothing in the pipeline holds it back".to_owned()
    } else {
        format!("held back by {} ({}): {}", worst.what, percent(worst.share), worst.advice)
    };
    Some(format!("device busy {} of the time{}; {rest}\n", percent(busy), load(steps, device)))
}

/// The share of the time in which the device computed, from 0 to 1, over the micro-steps of which that was measured.
#[must_use]
pub fn busy_share(steps: &[MicroStep]) -> f64 {
    let measured = steps.iter().filter_map(|m| m.times.busy().map(|busy| (busy, m.seconds)));
    let (busy, whole) = measured.fold((0.0, 0.0), |sum, m| (sum.0 + m.0, sum.1 + m.1));
    if whole > 0.0 { (busy / whole).min(1.0) } else { 0.0 }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// What was sampled, in brackets.
fn load(steps: &[MicroStep], device: &str) -> String {
    let mean = |of: fn(&MicroStep) -> Option<f64>| {
        let given: Vec<f64> = steps.iter().filter_map(of).collect();
        (!given.is_empty()).then(|| given.iter().sum::<f64>() / given.len() as f64)
    };
    let cpu = mean(|m| m.load.cpu).map(|cpu| format!("{} of a core", percent(cpu)));
    let sampled: Vec<String> = if device == "cuda" {
        let utilisation = mean(|m| m.load.utilisation).map(|share| format!("{} utilisation", percent(share)));
        let memory = steps.iter().filter_map(|m| m.load.memory).max().map(format_bytes);
        let power = mean(|m| m.load.power).map(|watts| format!("{watts:.0} W"));
        let told: Vec<String> = [utilisation, memory, power].into_iter().flatten().collect();
        let told = if told.is_empty() { "NVML tells nothing here".to_owned() } else { format!("NVML: {}", told.join(", ")) };
        [Some(told), cpu.map(|cpu| format!("process: {cpu}"))].into_iter().flatten().collect()
    } else {
        cpu.map(|cpu| format!("process: {cpu}")).into_iter().collect()
    };
    if sampled.is_empty() { String::new() } else { format!(" ({})", sampled.join("; ")) }
}

fn integer(experiment: &toml::Table, table: &str, key: &str) -> Option<i64> {
    experiment.get(table)?.get(key)?.as_integer()
}

fn for_waiting(experiment: &toml::Table, needed: f64) -> String {
    let workers = integer(experiment, "data", "workers").unwrap_or(1);
    let prefetch = integer(experiment, "data", "prefetch").unwrap_or(0);
    if prefetch == 0 {
        return "`data.prefetch = 2` prepares the next batches while a step runs".to_owned();
    }
    if needed > 0.9 * workers as f64 {
        let enough = (1.2 * needed).ceil().max(workers as f64 + 1.0);
        return format!(
            "preparing keeps {needed:.1} workers busy and there are {workers}: `data.workers = {enough}`, or `runner pack` once for all"
        );
    }
    format!("`data.prefetch = {}` evens out batches that take longer", 2 * prefetch)
}

fn for_copying(experiment: &toml::Table) -> String {
    let on = |key: &str| experiment.get("data").and_then(|d| d.get(key)).and_then(toml::Value::as_bool).unwrap_or(false);
    match (on("pinned"), on("device_prefetch")) {
        (false, _) => "`data.pinned = true` copies without a detour".to_owned(),
        (true, false) => "`data.device_prefetch = true` copies the next batch while a step runs".to_owned(),
        (true, true) => "a narrower `train.dtype` has less to copy".to_owned(),
    }
}

fn for_every(experiment: &toml::Table, table: &str) -> String {
    let every = integer(experiment, table, "every").unwrap_or(1);
    format!("`{table}.every = {}` does it a tenth as often", 10 * every)
}
