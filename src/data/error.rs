//! What can go wrong between a file and a batch. Invariant: a message names the file and, where there is one, the record in it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::whole::WriteError;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A record or sample, from 1.
    Record(u64),
    /// A line of text, from 1.
    Line(u64),
}

/// Samples cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataError {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What is wrong.
    pub what: String,
}

impl DataError {
    pub(super) fn new(file: &Path, place: Place, what: impl Into<String>) -> Self {
        Self { file: file.to_path_buf(), place, what: what.into() }
    }

    pub(super) fn of_file(file: &Path, what: impl fmt::Display) -> Self {
        Self::new(file, Place::File, what.to_string())
    }
}

/// Prepared samples could not be put into a file.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum PackError {
    /// They cannot be had.
    Data(#[from] DataError),
    /// The file takes none.
    Write(#[from] WriteError),
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        match self.place {
            Place::File => {}
            Place::Record(n) => write!(f, "record {n}: ")?,
            Place::Line(n) => write!(f, "line {n}: ")?,
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for DataError {}
