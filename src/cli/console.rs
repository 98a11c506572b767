//! Printing that survives a reader who leaves early: `runner … | head` still writes its files.

use std::io::{ErrorKind, Write};

use super::exit::{Exit, Failure};

/// Prints to stdout, styles stripped where nobody wants them.
///
/// # Errors
/// A [`Failure`] where stdout takes nothing for another reason than that its reader has gone.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(Exit::Failed, format!("cannot print: {error}"))),
        _ => Ok(()),
    }
}
