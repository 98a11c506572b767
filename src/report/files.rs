//! Results on the disk: folders tried before a run begins, and texts that appear whole or not at all.

use std::io;
use std::path::Path;

use crate::whole::{self, WriteError};

/// Makes `folder` where it is absent and tries whether a file can be made in it, so that a run does not train for an hour
/// before it finds out. Temporary files that killed runs left there long ago are removed.
///
/// # Errors
/// [`WriteError`] where the folder cannot be made or takes no files.
pub fn prepare_folder(folder: &Path) -> Result<(), WriteError> {
    let refuse = |source: io::Error| {
        // The system's own word for it, "File exists", sounds as if that were fine.
        let source = if folder.is_file() { io::Error::new(source.kind(), "a file has that name") } else { source };
        WriteError::Folder { path: folder.to_path_buf(), source }
    };
    std::fs::create_dir_all(folder).map_err(refuse)?;
    whole::remove_stale(folder);
    whole::temporary(folder).map(drop).map_err(|source| WriteError::File { path: folder.join("…"), source })
}

/// Tries whether a file can be made at `path`, and leaves everything as it was.
///
/// # Errors
/// [`WriteError`] where [`write_whole`] would find the path wrong.
pub fn try_place(path: &Path) -> Result<(), WriteError> {
    whole::try_place(path).map_err(|source| WriteError::File { path: path.to_path_buf(), source })
}

/// Writes `text` to `path` whole or not at all.
///
/// # Errors
/// [`WriteError`] where the folder takes no file, the disk is full, or `path` is a folder.
pub fn write_whole(path: &Path, text: &[u8]) -> Result<(), WriteError> {
    whole::write(path, text).map_err(|source| WriteError::File { path: path.to_path_buf(), source })
}

/// Rows as CSV with `\n` ends.
pub(super) fn csv_text(rows: impl Iterator<Item = Vec<String>>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("every row has the header's columns, and memory takes every byte");
    }
    writer.into_inner().expect("memory takes every byte")
}
