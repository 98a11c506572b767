//! How a command ends: the exit codes, and the errors that carry one.

use std::fmt;
use std::process::ExitCode;

use crate::whole::WriteError;

/// The exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exit {
    /// Everything was done, and nothing differed.
    Done = 0,
    /// A case failed or ran out of memory, a difference was found, or the disk took no more.
    Failed = 1,
    /// A file or an argument is wrong.
    Usage = 2,
    /// There is no such device.
    NoDevice = 3,
    /// Ctrl-C or SIGTERM; what was done is kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what was asked, and the exit code that says so.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    /// For a person; several lines where several things are wrong.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }

    pub(super) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }
}

/// A path that takes no file is a wrong argument. Where the path is good and the disk is full, the work failed.
impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::new(if error.is_of_the_path() { Exit::Usage } else { Exit::Failed }, error)
    }
}
