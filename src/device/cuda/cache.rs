//! What is kept on disk between processes: compiled kernels and chosen algorithms. Each file's name says all that its content depends on,
//! so a file is right or absent; it appears whole or not at all. A machine without a writable cache folder does the work every time.

use std::io::Write;
use std::path::{Path, PathBuf};

/// `runner/PART` in the user's cache folder, if they have one.
pub(super) fn folder(part: &str) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = if cfg!(windows) { set("LOCALAPPDATA") } else { set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))) };
    Some(base?.join("runner").join(part))
}

/// Writes a file. A cache that cannot be written is no failure.
pub(super) fn keep(file: &Path, bytes: &[u8]) {
    let write = || -> std::io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut whole = tempfile::NamedTempFile::new_in(folder)?;
        whole.write_all(bytes)?;
        whole.persist(file)?;
        Ok(())
    };
    let _ = write();
}
