//! A file read at positions, by any number of threads at once.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::data::error::{DataError, Place};

/// An open file with its name.
#[derive(Debug)]
pub(super) struct At {
    pub(super) path: PathBuf,
    file: File,
    /// Its length when it was opened, in bytes.
    pub(super) length: u64,
}

impl At {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let refuse = |e: io::Error| DataError::of_file(path, format!("cannot be read: {e}"));
        // Asked before it is opened: a pipe would wait for whoever writes.
        let about = fs::metadata(path).map_err(refuse)?;
        if about.is_dir() {
            return Err(DataError::of_file(path, "is a folder"));
        }
        if !about.is_file() {
            return Err(DataError::of_file(path, "is a pipe or a device, and samples are read at any place and more than once"));
        }
        let file = File::open(path).map_err(refuse)?;
        let length = file.metadata().map_err(refuse)?.len();
        Ok(Self { path: path.to_path_buf(), file, length })
    }

    /// Fills `bytes` from `offset` on. `place` is what they belong to.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8], place: Place) -> Result<(), DataError> {
        read_exact_at(&self.file, bytes, offset).map_err(|e| {
            let what = match e.kind() {
                io::ErrorKind::UnexpectedEof if self.now() < self.length => {
                    format!("the file has shrunk while it was read, from {} to {} bytes", self.length, self.now())
                }
                io::ErrorKind::UnexpectedEof => format!("the file ends before byte {}", offset + bytes.len() as u64),
                _ => format!("cannot be read: {e}"),
            };
            DataError::new(&self.path, place, what)
        })
    }

    /// The file to read from its beginning.
    pub(super) fn handle(&self) -> &File {
        &self.file
    }

    fn now(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.len())
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}
