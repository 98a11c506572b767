//! Scratch as a run on a GPU wrote it down: the table `[scratch]` of its `NAME.run.toml`, a key for each request. What the file does not
//! hold, the rules foresee.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Request, Rules, Scratch};
use crate::gpu::Gpu;

/// What libraries asked for on a certain GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Recorded {
    gpu: String,
    #[serde(default)]
    scratch: BTreeMap<String, u64>,
}

/// A file that holds no scratch.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum RecordedError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: no run file: {message}", path.display())]
    Parse { path: PathBuf, message: String },
    #[error("{}: its scratch is that of {recorded}, not of {wanted}; say `--gpu {recorded}`", path.display())]
    OtherGpu { path: PathBuf, recorded: String, wanted: String },
}

impl Recorded {
    /// Reads a run's file for use as `gpu`.
    ///
    /// # Errors
    /// [`RecordedError`] where it cannot be read, is no run file, or was written on another GPU.
    pub fn read(path: &Path, gpu: &Gpu) -> Result<Self, RecordedError> {
        let path_buf = || path.to_path_buf();
        let text = std::fs::read_to_string(path).map_err(|source| RecordedError::Read { path: path_buf(), source })?;
        let recorded: Self =
            toml::from_str(&text).map_err(|e| RecordedError::Parse { path: path_buf(), message: e.message().to_owned() })?;
        if recorded.gpu != gpu.name {
            return Err(RecordedError::OtherGpu { path: path_buf(), recorded: recorded.gpu, wanted: gpu.name.to_owned() });
        }
        Ok(recorded)
    }
}

impl Scratch for Recorded {
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64 {
        self.scratch.get(&request.to_string()).copied().unwrap_or_else(|| Rules.bytes(gpu, request))
    }
}
