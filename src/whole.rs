//! Files that appear whole or not at all: written beside their place, brought to the disk, then renamed; and files read whole. It
//! knows nothing of what they hold. A link stays a link, and what it points to is replaced. A terminal, a pipe that this process was handed
//! or another device cannot be replaced: it is written to. Pipes with a name and sockets are refused: to open one waits for its other end.
//!
//! Invariant: a path holds either what it held before or all that is new, also where the disk fills up or the process is killed half-way;
//! and a process that ends of itself leaves no temporary file, whatever its other threads are writing then.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::meta::format_bytes;

/// How the names of temporary files begin; [`RANDOM`] letters and digits follow.
const PREFIX: &str = ".runner-";
const RANDOM: usize = 6;
/// A temporary file that nobody has written to for so long is of a process that was killed.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// The temporary files and folders of this process that are there now. Whoever holds the lock may make, place or remove one.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that has not been put in its place yet, gone again unless it is.
#[derive(Debug)]
pub struct Temporary {
    /// There until it is put or dropped.
    file: Option<NamedTempFile>,
}

impl Temporary {
    fn file(&mut self) -> &mut File {
        self.file.as_mut().expect("a temporary file is there until it is put in its place").as_file_mut()
    }

    /// Renames it to `path`.
    fn persist(mut self, path: &Path) -> io::Result<()> {
        let mut live = live();
        let Some(file) = self.file.take() else { return Ok(()) };
        live.remove(file.path());
        file.persist(path).map(drop).map_err(|e| e.error)
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let mut live = live();
            live.remove(file.path());
            drop(file);
        }
    }
}

/// A folder of its own, gone again with all that is in it when this is dropped.
#[derive(Debug)]
pub struct TemporaryFolder {
    /// There until it is dropped.
    folder: Option<TempDir>,
}

impl TemporaryFolder {
    /// A new one, where the system keeps such.
    ///
    /// # Errors
    /// That place takes none.
    pub fn new() -> io::Result<Self> {
        let mut live = live();
        let folder = tempfile::tempdir()?;
        live.insert(folder.path().to_path_buf());
        Ok(Self { folder: Some(folder) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.as_ref().expect("a temporary folder is there until it is dropped").path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            let mut live = live();
            live.remove(folder.path());
            drop(folder);
        }
    }
}

/// Removes every temporary file and folder, and lets no other be made or put in its place: for the end of the process, while its other
/// threads may be writing. Whoever tries waits for that end, also who calls this a second time.
pub fn abandon() {
    let live = live();
    for path in &*live {
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    std::mem::forget(live);
}

/// Removes the temporary files that killed processes left in `folder`. Of those younger than a day nobody knows whether they are some
/// other process's that still writes; they stay, as does what cannot be removed.
pub fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_ours = random.is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()));
        let is_old = |m: fs::Metadata| m.is_file() && m.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE));
        if is_ours && entry.metadata().is_ok_and(is_old) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

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

/// The most that is read of a pipe, whose length nobody knows before.
const MOST_PIPED: u64 = 4 << 30;

/// The most that is read of a device: one such as /dev/zero has no end.
const MOST_OF_A_DEVICE: u64 = 256 << 20;

/// Reads all of `path`, where that is at most `most` bytes.
///
/// # Errors
/// It cannot be read, has more ([`io::ErrorKind::FileTooLarge`]), or is a named pipe or a socket.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    if waits(path, &about) {
        return Err(waiting());
    }
    let most = match about.is_file() {
        true => most,
        false if is_pipe(&about) => most.min(MOST_PIPED),
        false => most.min(MOST_OF_A_DEVICE),
    };
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {}", format_bytes(most)));
    let mut bytes = Vec::new();
    if about.is_file() {
        if about.len() > most {
            return Err(too_large());
        }
        bytes.try_reserve_exact(usize::try_from(about.len()).map_err(|_| too_large())?)?;
    }
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// As [`read`], of text.
///
/// # Errors
/// As there, or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// A temporary file where `path` will be, gone again unless [`put`] there.
///
/// # Errors
/// The folder is not there or takes no files, or `path` is a folder itself, a named pipe or a socket.
pub fn begin(path: &Path) -> io::Result<Temporary> {
    if is_stream(path)? {
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
    if is_stream(path)? {
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
    if is_stream(path)? { Ok(()) } else { begin(path).map(drop) }
}

/// Whether `path` is there and neither a file nor a folder: renaming over it would take it from everybody else who uses it.
///
/// # Errors
/// It is a named pipe or a socket.
fn is_stream(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(about) if waits(path, &about) => Err(waiting()),
        about => Ok(about.is_ok_and(|about| !about.is_file() && !about.is_dir())),
    }
}

fn waiting() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe or a socket, and nobody may ever come to its other end")
}

/// Whether to open it may take for ever: a pipe or a socket, unless this process was handed it open.
fn waits(path: &Path, about: &Metadata) -> bool {
    let handed = ["/dev/fd", "/proc/self/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|p| path.starts_with(p));
    // A pipe without a name has no path, whatever links lead to it.
    is_pipe(about) && !handed && fs::canonicalize(path).is_ok()
}

#[cfg(unix)]
fn is_pipe(about: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    about.file_type().is_fifo() || about.file_type().is_socket()
}

#[cfg(not(unix))]
fn is_pipe(_about: &Metadata) -> bool {
    false
}

/// What `path` stands for where it is a link, be it there or not.
#[must_use]
pub fn followed(path: &Path) -> PathBuf {
    let Ok(target) = fs::read_link(path) else { return path.to_path_buf() };
    fs::canonicalize(path).unwrap_or_else(|_| folder_of(path).join(target))
}

/// Where it lies: the current folder, where nothing is said.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary file in `folder`, gone again unless [`put`] somewhere, with the permissions an ordinary new file has.
///
/// # Errors
/// The folder is not there or takes no files.
pub fn temporary(folder: &Path) -> io::Result<Temporary> {
    // Opened here, since the library's own errors name the temporary file.
    let open = |path: &Path| File::options().read(true).write(true).create_new(true).open(path);
    let mut live = live();
    let made = Builder::new().prefix(PREFIX).rand_bytes(RANDOM).make_in(folder, open).map_err(|error| match folder.exists() {
        true => error,
        false => io::Error::new(error.kind(), format!("there is no folder {}", folder.display())),
    });
    made.map(|file| {
        live.insert(file.path().to_path_buf());
        Temporary { file: Some(file) }
    })
}

/// Brings what was written to the disk and into its place; into a stream, all of it at once.
///
/// # Errors
/// The disk is full, `path` is a folder, or a stream's reader has gone.
pub fn put(mut file: Temporary, path: &Path) -> io::Result<()> {
    if is_stream(path)? {
        file.file().seek(SeekFrom::Start(0))?;
        let mut stream = File::options().write(true).open(path)?;
        io::copy(file.file(), &mut stream)?;
        return Ok(());
    }
    file.file().sync_all()?;
    file.persist(&followed(path))
}
