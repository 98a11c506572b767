//! `NAME.journal.jsonl`: the finished cases of a run that goes on, one a line and as soon as each is done, and reading back what a
//! run left, whether it ended or not.
//!
//! It is what `--resume` goes on from and is gone when a run ends well. It decides nothing about which cases count.
//! Invariant: a line is written in one piece, so that a process killed at any moment leaves whole lines and at most one torn one,
//! which is passed over.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::case::{CaseReport, Labels, join};
use super::files::write_whole;
use super::source::MOST_BYTES;
use super::{read, results, run_file, training};
use crate::record::{DeviceMemory, Measured, MicroStep, Status};
use crate::whole::{self, WriteError};

/// What a run ran with, all of which must be the same for its cases to count again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Version of this program.
    pub version: String,
    /// A digest of its sources: another one may measure otherwise. Empty in what was written before there was one.
    #[serde(default)]
    pub sources: String,
    /// `cuda`, `host` or `virtual`.
    pub device: String,
    /// The GPU whose memory behaviour counted.
    pub gpu: String,
    /// The file that told what libraries ask for, as [`Scratch::origin`](crate::scratch::Scratch::origin) has it; absent where the program
    /// or the GPU did.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub scratch_from: String,
}

impl Setting {
    /// This program's, on that device, for that GPU, with scratch from there.
    #[must_use]
    pub fn of(device: &str, gpu: &str, scratch_from: String) -> Self {
        Self { version: VERSION.to_owned(), sources: SOURCES.to_owned(), device: device.to_owned(), gpu: gpu.to_owned(), scratch_from }
    }
}

/// This program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A digest of the sources that this program is built from.
pub const SOURCES: &str = env!("RUNNER_SOURCES");

/// A finished case as measured. What is predicted is worked out anew.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The case as an experiment of its own: what it is known by.
    pub experiment: toml::Table,
    /// Its rows, to the end or to where memory ran out.
    pub rows: Vec<Measured>,
    /// Its micro-steps.
    pub micro_steps: Vec<MicroStep>,
    /// What the GPU held at its end.
    pub device_memory: Option<DeviceMemory>,
    /// What the GPU's libraries had asked for by then, as the run file has it.
    pub scratch: BTreeMap<String, u64>,
}

/// A line of the journal: rows and micro-steps as their files have them.
#[derive(Serialize, Deserialize)]
struct Line {
    experiment: toml::Table,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    device_memory: Option<DeviceMemory>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    scratch: BTreeMap<String, u64>,
    rows: String,
    training: String,
}

/// A journal being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
}

impl Journal {
    /// Begins a journal in place of what was there, with cases that are done already. An old journal lasts until the new one
    /// holds them all.
    ///
    /// # Errors
    /// [`WriteError`] where it cannot be written.
    pub fn begin(path: &Path, setting: &Setting, done: &[Finished]) -> Result<Self, WriteError> {
        let mut text = json(setting);
        done.iter().for_each(|case| text.extend(line(case)));
        write_whole(path, &text)?;
        let file = OpenOptions::new().append(true).open(path);
        file.map(|file| Self { file }).map_err(|source| WriteError::File { path: path.to_path_buf(), source })
    }

    /// Adds a case.
    ///
    /// # Errors
    /// What the system says.
    pub fn add(&mut self, case: &Finished) -> io::Result<()> {
        self.file.write_all(&line(case))
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("keys are text and numbers finite");
    text.push(b'\n');
    text
}

fn line(case: &Finished) -> Vec<u8> {
    let report = CaseReport { labels: Labels::default(), rows: join(&case.rows, &[]), left_out: 0 };
    let text = |bytes| String::from_utf8(bytes).expect("rows are text");
    json(&Line {
        experiment: case.experiment.clone(),
        device_memory: case.device_memory,
        scratch: case.scratch.clone(),
        rows: text(results::to_csv(&[report])),
        training: text(training::to_csv(false, training::is_timed(&case.experiment), std::iter::once(("", &*case.micro_steps)))),
    })
}

/// The finished cases in the journal at `path` of a run with this setting; none where there is no such journal.
#[must_use]
pub fn read_journal(path: &Path, setting: &Setting) -> Vec<Finished> {
    let Ok(text) = whole::read(path, MOST_BYTES) else { return Vec::new() };
    let mut lines = text.split_inclusive(|&b| b == b'\n').filter(|l| l.ends_with(b"\n"));
    if lines.next().and_then(|head| serde_json::from_slice::<Setting>(head).ok()).as_ref() != Some(setting) {
        return Vec::new();
    }
    lines.filter_map(|l| serde_json::from_slice::<Line>(l).ok()).filter_map(finished).collect()
}

fn finished(line: Line) -> Option<Finished> {
    let results = read::parse("", line.rows.as_bytes()).ok()?;
    let rows = measured(results.cases.first()?)?;
    let micro_steps = training::parse(line.training.as_bytes())?.remove("").unwrap_or_default();
    Some(Finished { experiment: line.experiment, rows, micro_steps, device_memory: line.device_memory, scratch: line.scratch })
}

/// The rows of a case that was measured to its end; `None` where it failed on the way.
fn measured(case: &read::Case) -> Option<Vec<Measured>> {
    let ran_out = |row: &read::Row| row.status == Status::Oom && row.measured.is_some();
    let end = case.rows.iter().position(ran_out).map_or(case.rows.len(), |last| last + 1);
    let row = |r: &read::Row| Some(Measured { at: r.at, memory: r.measured?, categories: r.categories?, status: r.status });
    case.rows[..end].iter().map(row).collect()
}

/// The finished cases of a run with this setting that wrote its three files; none where they are not there or do not go together.
#[must_use]
pub fn read_results(results: &Path, training: &Path, run: &Path, setting: &Setting) -> Vec<Finished> {
    try_results(results, training, run, setting).unwrap_or_default()
}

fn try_results(results: &Path, training: &Path, run: &Path, setting: &Setting) -> Option<Vec<Finished>> {
    let run = run_file::Past::parse(&whole::read_text(run, MOST_BYTES).ok()?)?;
    if run.setting != *setting {
        return None;
    }
    let results = read::read(results).ok()?;
    let mut micro_steps = training::parse(&whole::read(training, MOST_BYTES).ok()?)?;
    let mut rows: BTreeMap<&str, &read::Case> = results.cases.iter().map(|c| (c.label.as_str(), c)).collect();
    let cases = run.cases.into_iter().filter(|case| !case.failed).filter_map(|case| {
        let rows = measured(rows.remove(case.key.as_str())?)?;
        let micro_steps = micro_steps.remove(&case.key).unwrap_or_default();
        Some(Finished { experiment: case.experiment, rows, micro_steps, device_memory: case.device_memory, scratch: run.scratch.clone() })
    });
    Some(cases.collect())
}
