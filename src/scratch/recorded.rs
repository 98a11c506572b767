//! Scratch as a run on a GPU wrote it down: the table `[scratch]` of its `NAME.run.toml`, a key for each request. What the file does not
//! hold, the rules foresee, so that all that it lacks can be told at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::digest::digest;
use super::{Answered, Request, Rules, Scratch};
use crate::gpu::Gpu;
use crate::meta::{cut, plain};
use crate::whole;

/// No run's file is as large.
const MOST_BYTES: u64 = 256 << 20;

/// What libraries asked for on a certain GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    path: PathBuf,
    /// Where the table begins, from 1.
    line: usize,
    scratch: Option<BTreeMap<String, u64>>,
}

/// A file whose scratch cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum RecordedError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: no run file: {message}", path.display())]
    Parse { path: PathBuf, line: usize, message: String },
    #[error("{}:{line}: its scratch is that of {recorded}, not of {wanted}; say `--gpu {recorded}`", path.display())]
    OtherGpu { path: PathBuf, line: usize, recorded: String, wanted: String },
    #[error("{}: has no table `[scratch]`, and the experiment asks for `{key}`{more}; {HINT}", path.display())]
    NoTable { path: PathBuf, key: String, more: More },
    #[error("{}:{line}: `[scratch]` lacks `{key}`{more}, for which the experiment asks; {HINT}", path.display())]
    Lacks { path: PathBuf, line: usize, key: String, more: More },
}

const HINT: &str = "such a file is written by a run of the same experiment with the same settings on the GPU, `--device cuda`";

/// How many others there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct More(pub usize);

impl std::fmt::Display for More {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " and {} more", self.0) }
    }
}

impl Recorded {
    /// Reads a run's file for use as `gpu`.
    ///
    /// # Errors
    /// [`RecordedError`] where it cannot be read, is no run file, or was written on another GPU.
    pub fn read(path: &Path, gpu: &Gpu) -> Result<Self, RecordedError> {
        #[derive(Deserialize)]
        struct RunFile {
            gpu: String,
            scratch: Option<BTreeMap<String, u64>>,
        }
        let path = path.to_path_buf();
        let text = match whole::read_text(&path, MOST_BYTES) {
            Ok(text) => text,
            Err(source) => return Err(RecordedError::Read { path, source }),
        };
        let line_of = |begin: &str| text.lines().position(|line| line.starts_with(begin)).map_or(1, |at| at + 1);
        let RunFile { gpu: recorded, scratch } = match toml::from_str(&text) {
            Ok(file) => file,
            Err(e) => {
                let line = e.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
                return Err(RecordedError::Parse { path, line, message: cut(e.message(), 200).into_owned() });
            }
        };
        if recorded != gpu.name {
            return Err(RecordedError::OtherGpu {
                path,
                line: line_of("gpu"),
                recorded: plain(&recorded).into_owned(),
                wanted: gpu.name.to_owned(),
            });
        }
        Ok(Self { path, line: line_of("[scratch]"), scratch })
    }

    /// Whether it holds all of these requests, by their keys.
    ///
    /// # Errors
    /// The first that it lacks, and how many others.
    pub fn covers<'a>(&self, requests: impl IntoIterator<Item = &'a String>) -> Result<(), RecordedError> {
        let holds = |key: &String| self.scratch.as_ref().is_some_and(|scratch| scratch.contains_key(key));
        let mut lacking = requests.into_iter().filter(|key| !holds(key));
        let Some(key) = lacking.next().cloned() else { return Ok(()) };
        let (path, more) = (self.path.clone(), More(lacking.count()));
        Err(match self.scratch {
            None => RecordedError::NoTable { path, key, more },
            Some(_) => RecordedError::Lacks { path, line: self.line, key, more },
        })
    }
}

impl Scratch for Recorded {
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64 {
        match &self.scratch {
            Some(answers) => Answered { answers, otherwise: &Rules }.bytes(gpu, request),
            None => Rules.bytes(gpu, request),
        }
    }

    fn origin(&self) -> String {
        let lines = self.scratch.iter().flatten().map(|(key, bytes)| format!("{key} = {bytes}\n"));
        format!("scratch {:016x}", digest(lines.flat_map(String::into_bytes)))
    }
}
