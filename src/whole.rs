//! Files that appear whole or not at all: written beside their place, brought to the disk, then renamed. It knows nothing of what they hold.
//!
//! Invariant: a path holds either what it held before or all that is new, also where the disk fills up or the process is killed half-way.

use std::io;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// A temporary file where `path` will be, gone again unless [`put`] there.
///
/// # Errors
/// The folder is not there or takes no files.
pub fn begin(path: &Path) -> io::Result<NamedTempFile> {
    temporary(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// A temporary file in `folder`, gone again unless [`put`] somewhere, with the permissions an ordinary new file has.
///
/// # Errors
/// The folder is not there or takes no files.
pub fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(".runner-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// Brings what was written to the disk and into its place.
///
/// # Errors
/// The disk is full, or `path` is a folder.
pub fn put(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}
