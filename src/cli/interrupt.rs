//! Ctrl-C, and a scheduler's SIGTERM: the first asks the run to keep what is done and end, the second ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::Exit;

/// Calls `ask` at the first interruption, on a thread of its own.
///
/// Where a handler cannot be set, an interruption ends the process, as it does by default; what is done is in the journal.
pub(super) fn on_first(ask: impl Fn() + Send + 'static) {
    let asked = AtomicBool::new(false);
    let handler = move || {
        if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(Exit::Interrupted as i32);
        }
        ask();
    };
    let _ = ctrlc::set_handler(handler);
}
