//! From the command line's files and folders to experiment files.
//!
//! Invariant: no two inputs write the same file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::exit::Failure;
use crate::report::source::printable;

/// The longest name an experiment may have, in bytes: file systems stop at 255, and endings such as `.shard-1-of-8.training.csv` follow.
const LONGEST_STEM: usize = 200;

/// The names of the files that an experiment named `stem` writes.
pub(super) struct Outputs {
    pub(super) results: PathBuf,
    pub(super) training: PathBuf,
    pub(super) run: PathBuf,
    /// Finished cases while others run.
    pub(super) journal: PathBuf,
    /// What an interrupted run has done.
    pub(super) partial: PathBuf,
}

impl Outputs {
    pub(super) fn of(folder: &Path, stem: &str) -> Self {
        let path = |ending: &str| folder.join(format!("{stem}.{ending}"));
        Self {
            results: path("csv"),
            training: path("training.csv"),
            run: path("run.toml"),
            journal: path("journal.jsonl"),
            partial: path("partial.csv"),
        }
    }

    /// The save of case number `number`, from 1, of `cases`.
    pub(super) fn save(&self, number: usize, cases: usize) -> PathBuf {
        if cases == 1 { self.results.with_extension("safetensors") } else { self.results.with_extension(format!("{number}.safetensors")) }
    }

    /// All but saves.
    pub(super) fn all(&self) -> impl Iterator<Item = &Path> {
        [&self.results, &self.training, &self.run, &self.journal, &self.partial].into_iter().map(PathBuf::as_path)
    }
}

/// The experiment files that `arguments` name: a file itself, a folder its `.toml` files by name.
///
/// # Errors
/// All mistakes at once: a path that is not there, a folder without experiments, two inputs that would write one file.
pub(super) fn collect(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut mistakes = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            match experiments_in(argument) {
                Ok(found) if found.is_empty() => mistakes.push(format!("{}: the folder has no .toml file", argument.display())),
                Ok(found) => files.extend(found),
                Err(error) => mistakes.push(format!("{}: {error}", argument.display())),
            }
        } else if let Err(error) = std::fs::metadata(argument) {
            let hint =
                super::entry::command_like(argument).map_or_else(String::new, |name| format!("; did you mean the command `{name}`?"));
            mistakes.push(format!("{}: {error}{hint}", argument.display()));
        } else {
            files.push(argument.clone());
        }
    }
    let mut writers: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for file in &files {
        let Some(stem) = stem(file) else {
            mistakes.push(format!("{}: the file's name is not valid Unicode", file.display()));
            continue;
        };
        if stem.contains(char::is_control) {
            mistakes.push(format!("{}: the file's name has a character that does not print", printable(&file.display().to_string())));
            continue;
        }
        if stem.len() > LONGEST_STEM {
            let name = file.display();
            mistakes
                .push(format!("{name}: the name is too long for the files named after it: at most {LONGEST_STEM} bytes before the ending"));
        }
        let outputs = Outputs::of(Path::new(""), stem);
        let clash = outputs.all().find_map(|o| writers.insert(o.to_path_buf(), file).map(|w| (o, w)));
        if let Some((output, other)) = clash {
            mistakes.push(format!("{} and {} would both write {}", other.display(), file.display(), output.display()));
        }
    }
    if mistakes.is_empty() { Ok(files) } else { Err(Failure::usage(mistakes.join("\n"))) }
}

/// The name of the experiment in `file`.
pub(super) fn stem(file: &Path) -> Option<&str> {
    file.file_stem().and_then(OsStr::to_str)
}

fn experiments_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
