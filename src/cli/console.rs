//! Printing that survives a reader who leaves early: `runner … | head` still writes its files, and a stderr that takes nothing stops nobody.
//!
//! Invariant: nothing else of this program writes to stdout or stderr but the progress bar.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::{Exit, Failure};

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on only what a command is for is printed.
pub(super) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether that is so.
pub(super) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a report to stdout, styles stripped where nobody wants them, unless nobody wants to hear.
///
/// # Errors
/// A [`Failure`] where stdout takes nothing for another reason than that its reader has gone.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    if is_quiet() { Ok(()) } else { print_always(text) }
}

/// Tells on stderr what is worth knowing beside a report, unless nobody wants to hear.
pub(super) fn note(text: &str) {
    if !is_quiet() {
        tell(format_args!("note: {text}"));
    }
}

/// Tells on stderr what everybody has to hear, as lines of their own. Where stderr takes nothing there is nobody to be told so.
pub(super) fn tell(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints what was asked for in itself: a script, a page, a schema.
///
/// # Errors
/// As [`print`].
pub(super) fn print_always(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(Exit::Failed, format!("cannot print: {error}"))),
        _ => Ok(()),
    }
}
