//! Results as a commit has them, by asking git.
//!
//! Git runs as a child with its arguments in a list, never through a shell; what a person gave as a revision is turned into a
//! commit's hash first, and only the hash goes on. Nothing in the repository changes.
//! Invariant: no text from outside stands where git could take it for an option.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::source::{File, Files, printable, results_name, stem};

/// Why a commit gave no results.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum CommittedError {
    #[error("git could not be started: {0}")]
    NoGit(std::io::Error),
    #[error("{}: {source}", path.display())]
    Path { path: PathBuf, source: std::io::Error },
    #[error("{} is in no git repository, so there is nothing to compare it with", path.display())]
    NoRepository { path: PathBuf },
    #[error("`{revision}` names no commit in this repository")]
    NoCommit { revision: String },
    #[error("git {command}: {message}")]
    Failed { command: String, message: String },
}

/// The results that `revision` has at `path`, a file or a folder in a working tree. None where the commit has nothing there.
///
/// # Errors
/// [`CommittedError`] where git is absent, `path` is in no repository, or `revision` names no commit.
pub fn at(revision: &str, path: &Path) -> Result<Files, CommittedError> {
    let (existing, rest) = nearest_folder(path)?;
    let top = git(&existing, ["rev-parse", "--show-toplevel"])
        .map_err(|e| match e {
            CommittedError::Failed { ref message, .. } if message.contains("not a git repository") => {
                CommittedError::NoRepository { path: path.to_path_buf() }
            }
            other => other,
        })
        .map(|out| PathBuf::from(text(&out).trim_end_matches(['\n', '\r'])))?;
    let top = top.canonicalize().map_err(|source| CommittedError::Path { path: top, source })?;
    let inside = existing.strip_prefix(&top).map_err(|_| CommittedError::NoRepository { path: path.to_path_buf() })?.join(rest);
    let inside = inside.components().map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/");

    let no_commit = || CommittedError::NoCommit { revision: revision.to_string() };
    let peeled = format!("{revision}^{{commit}}");
    let commit = git(&top, ["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled]).map_err(|_| no_commit())?;
    let commit = text(&commit).trim().to_string();
    if commit.is_empty() || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(no_commit());
    }

    let mut list = vec!["--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", &commit];
    if !inside.is_empty() {
        list.extend(["--", &inside]);
    }
    let mut files = Files::new();
    for entry in text(&git(&top, list)?).split('\0') {
        // `100644 blob HASH<TAB>PATH`
        let Some((about, path)) = entry.split_once('\t') else { continue };
        let mut about = about.split(' ').skip(1);
        let (Some("blob"), Some(hash)) = (about.next(), about.next()) else { continue };
        let name = match path.strip_prefix(&inside).map(|p| p.trim_start_matches('/')) {
            Some("") => Some(stem(Path::new(path))),
            Some(below) => results_name(below).map(printable),
            None => None,
        };
        if let Some(name) = name {
            let bytes = git(&top, ["cat-file", "blob", hash])?;
            files.insert(name, File { shown: printable(&format!("{revision}:{path}")), bytes });
        }
    }
    Ok(files)
}

/// The deepest folder on the way to `path` that exists, without links, and the rest of the way: results deleted from the working
/// tree are still in the commit.
fn nearest_folder(path: &Path) -> Result<(PathBuf, PathBuf), CommittedError> {
    let failed = |source| CommittedError::Path { path: path.to_path_buf(), source };
    let absolute = std::path::absolute(path).map_err(failed)?;
    let folder = absolute.ancestors().find(|p| p.is_dir()).unwrap_or(Path::new("/"));
    let rest = absolute.strip_prefix(folder).unwrap_or(Path::new("")).to_path_buf();
    Ok((folder.canonicalize().map_err(failed)?, rest))
}

fn git<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Result<Vec<u8>, CommittedError> {
    let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_os_string()).collect();
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["--no-pager", "--no-optional-locks"])
        .args(&arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(CommittedError::NoGit)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let command = arguments.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ");
    Err(CommittedError::Failed { command, message: text(&output.stderr).trim().to_string() })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
