//! Writing saves in the background, one at a time: whoever trains goes on, and waits only where the save before is not finished.

use std::path::PathBuf;
use std::thread::JoinHandle;

use super::file::{SaveError, write};
use super::snapshot::Snapshot;

/// Writes saves to one path, each in the place of the one before.
#[derive(Debug)]
pub struct Saver {
    path: PathBuf,
    writing: Option<JoinHandle<Result<(), SaveError>>>,
}

impl Saver {
    /// Writes to `path`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, writing: None }
    }

    /// Begins to write a save, once the one before is finished.
    ///
    /// # Errors
    /// The one before could not be written.
    pub fn save(&mut self, snapshot: Snapshot) -> Result<(), SaveError> {
        self.finish()?;
        let path = self.path.clone();
        self.writing = Some(std::thread::spawn(move || write(&snapshot, &path)));
        Ok(())
    }

    /// Waits for the last save.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(&mut self) -> Result<(), SaveError> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        writing.join().unwrap_or_else(|_| Err(SaveError::Write { path: self.path.clone(), what: "its thread panicked".to_owned() }))
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        // Whoever wants to know has asked `finish`; the file is finished either way.
        drop(self.finish());
    }
}
