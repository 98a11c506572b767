//! Outputs beside what is read, and beside one another. Nothing is read or written here.
//!
//! Invariant: what a command reads is not written over, and no two outputs go to one place. A stream takes any number of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::exit::Failure;
use crate::whole::{folder_of, followed};

/// Refuses outputs that lie where something is read, or where another one goes.
///
/// # Errors
/// The first of them.
pub(super) fn check<'a>(inputs: impl IntoIterator<Item = &'a Path>, outputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let read: BTreeMap<PathBuf, &Path> = inputs.into_iter().filter_map(|path| Some((place(path)?, path))).collect();
    let mut written: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for path in outputs {
        let Some(place) = place(path) else { continue };
        let output = path.display();
        if let Some(input) = read.get(&place) {
            let which = if *input == path { String::new() } else { format!(", as {}", input.display()) };
            return Err(Failure::usage(format!("{output} would be written over, and is read{which}: name another file to write")));
        }
        if let Some(other) = written.insert(place, path) {
            let which = if other == path { String::new() } else { format!(", the other time as {}", other.display()) };
            return Err(Failure::usage(format!("{output} would be written twice{which}: name a file for each output")));
        }
    }
    Ok(())
}

/// The one path of all that lead to a file, be it there or not; `None` where nothing is replaced.
fn place(path: &Path) -> Option<PathBuf> {
    match fs::metadata(path) {
        Ok(about) if !about.is_file() && !about.is_dir() => None,
        Ok(_) => Some(fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())),
        Err(_) => {
            // A link to what is not there yet stays a link when it is written.
            let target = followed(path);
            let folder = folder_of(&target);
            let folder = fs::canonicalize(folder).or_else(|_| std::path::absolute(folder)).unwrap_or_else(|_| folder.to_path_buf());
            Some(target.file_name().map_or_else(|| target.clone(), |name| folder.join(name)))
        }
    }
}
