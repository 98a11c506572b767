//! Files that appear whole or not at all: written beside their place, brought to the disk, then renamed. It knows nothing of what they
//! hold. A link stays a link, and what it points to is replaced. A terminal, a pipe or another device cannot be replaced: it is written to.
//!
//! Invariant: a path holds either what it held before or all that is new, also where the disk fills up or the process is killed half-way.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A file or folder that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder is there neither before nor after trying to make it.
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be written, or not be put in its place.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl WriteError {
    /// Whether another path would do: this one leads nowhere, is a folder, or is not to be written. Else the disk, or whoever reads a
    /// stream, took no more.
    #[must_use]
    pub fn is_of_the_path(&self) -> bool {
        use io::ErrorKind as Kind;
        let (Self::Folder { source, .. } | Self::File { source, .. }) = self;
        matches!(
            source.kind(),
            Kind::NotFound
                | Kind::PermissionDenied
                | Kind::ReadOnlyFilesystem
                | Kind::AlreadyExists
                | Kind::IsADirectory
                | Kind::NotADirectory
                | Kind::InvalidFilename
                | Kind::InvalidInput
        )
    }
}

/// A temporary file where `path` will be, gone again unless [`put`] there.
///
/// # Errors
/// The folder is not there or takes no files, or `path` is a folder itself.
pub fn begin(path: &Path) -> io::Result<NamedTempFile> {
    if is_stream(path) {
        return temporary(&std::env::temp_dir());
    }
    let place = followed(path);
    if place.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // A name that the file system refuses is refused here, not after the work.
    if let Err(error) = fs::symlink_metadata(&place)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    temporary(folder_of(&place))
}

/// Writes all of `path` at once, from memory: into a stream without a temporary file.
///
/// # Errors
/// As those of [`begin`] and [`put`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_stream(path) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let mut file = begin(path)?;
    file.write_all(bytes)?;
    put(file, path)
}

/// Tries whether [`write()`] could begin, and leaves everything as it was.
///
/// # Errors
/// As those of [`begin`].
pub fn try_place(path: &Path) -> io::Result<()> {
    if is_stream(path) { Ok(()) } else { begin(path).map(drop) }
}

/// Whether `path` is there and neither a file nor a folder: renaming over it would take it from everybody else who uses it.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// What `path` stands for where it is a link, be it there or not.
fn followed(path: &Path) -> PathBuf {
    let Ok(target) = fs::read_link(path) else { return path.to_path_buf() };
    fs::canonicalize(path).unwrap_or_else(|_| folder_of(path).join(target))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
    builder.tempfile_in(folder).map_err(|error| {
        if !folder.exists() {
            return io::Error::new(error.kind(), format!("there is no folder {}", folder.display()));
        }
        // Its message would name the temporary file; what the system said lies within.
        let within = error.get_ref().and_then(std::error::Error::source).and_then(|e| e.downcast_ref::<io::Error>());
        within.and_then(io::Error::raw_os_error).map_or(error, io::Error::from_raw_os_error)
    })
}

/// Brings what was written to the disk and into its place; into a stream, all of it at once.
///
/// # Errors
/// The disk is full, `path` is a folder, or a stream's reader has gone.
pub fn put(mut file: NamedTempFile, path: &Path) -> io::Result<()> {
    if is_stream(path) {
        file.as_file_mut().seek(SeekFrom::Start(0))?;
        let mut stream = File::options().write(true).open(path)?;
        io::copy(file.as_file_mut(), &mut stream)?;
        return Ok(());
    }
    file.as_file().sync_all()?;
    file.persist(followed(path)).map_err(|e| e.error)?;
    Ok(())
}
