//! Where results are taken from to be compared: a file, a folder, or a commit.
//!
//! Which files of a folder are results is decided here, once for the disk and for a commit. Nothing is parsed here.
//! Invariant: names are relative to the folder, `/` between their parts, in the order of their bytes, so that the same folder
//! gives the same list everywhere.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::whole;

/// No results are as large.
pub const MOST_BYTES: u64 = 4 << 30;

/// Results by name: the path inside the folder without `.csv`.
pub type Files = BTreeMap<String, File>;

/// A file's content and what messages call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The path, or the commit and the path.
    pub shown: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// A path that cannot be taken results from.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct SourceError {
    /// The path.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// The results in `path`: the file itself, whatever it is called, or every results file in the folder and the folders in it.
///
/// # Errors
/// [`SourceError`] where something cannot be read.
pub fn on_disk(path: &Path) -> Result<Files, SourceError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| SourceError { path, source }
    };
    let mut files = Files::new();
    let read = |path: &Path| {
        let bytes = whole::read(path, MOST_BYTES).map_err(failed(path))?;
        Ok(File { shown: printable(&path.display().to_string()), bytes })
    };
    if !std::fs::metadata(path).map_err(failed(path))?.is_dir() {
        files.insert(stem(path), read(path)?);
        return Ok(files);
    }
    let mut folders = vec![(path.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let inside = format!("{prefix}{name}");
            // Links to folders are not followed: they may lead in a circle.
            if entry.file_type().map_err(failed(&entry.path()))?.is_dir() {
                if !name.starts_with('.') {
                    folders.push((entry.path(), format!("{inside}/")));
                }
            } else if let Some(name) = results_name(&inside) {
                files.insert(printable(name), read(&entry.path())?);
            }
        }
    }
    Ok(files)
}

/// The name of the results that the file at `path`, parts separated by `/`, would hold; `None` where such a file is no results.
#[must_use]
pub fn results_name(path: &str) -> Option<&str> {
    let name = path.strip_suffix(".csv")?;
    let hidden = path.split('/').any(|part| part.starts_with('.'));
    // What lies beside the results: NAME.training.csv has times and losses, NAME.partial.csv what an interrupted run did.
    (!hidden && ![".training", ".partial"].iter().any(|end| name.ends_with(end))).then_some(name)
}

/// `name` as it may be printed: a terminal takes nothing in it for a command.
#[must_use]
pub fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A file's name without folder and `.csv`.
#[must_use]
pub fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    printable(name.strip_suffix(".csv").unwrap_or(&name))
}
