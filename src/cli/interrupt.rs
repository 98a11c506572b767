//! Ctrl-C, and a scheduler's SIGTERM: the first asks the run to keep what is done and end; where nothing runs, and at a later one, the
//! process ends at once.
//!
//! One interruption may come as several signals: `timeout` signals the program and then its whole group. So what follows the first within
//! [`ONE`] is one with it.
//! Invariant: however an interruption ends the process, it leaves no temporary file and exits with 130.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::exit::Exit;
use crate::whole;

/// Signals this close to the first are one interruption.
const ONE: Duration = Duration::from_millis(500);

/// What a signal meets.
struct State {
    /// When the first came.
    first: Option<Instant>,
    /// What it asks, while there is something to keep.
    ask: Option<Box<dyn Fn() + Send>>,
}

static STATE: Mutex<State> = Mutex::new(State { first: None, ask: None });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens from now on, on a thread of its own.
///
/// Where that cannot be, an interruption ends the process as it does by default; what is done is in the journal.
pub(super) fn listen() {
    let _ = ctrlc::set_handler(interrupted);
}

fn interrupted() {
    let mut state = state();
    match (state.first, &state.ask) {
        (Some(first), _) if first.elapsed() < ONE => {}
        (None, Some(ask)) => {
            ask();
            state.first = Some(Instant::now());
        }
        _ => {
            drop(state);
            whole::abandon();
            std::process::exit(Exit::Interrupted as i32);
        }
    }
}

/// Calls `ask` at the first interruption, on another thread, as long as what is returned lives.
pub(super) fn on_first(ask: impl Fn() + Send + 'static) -> Asking {
    state().ask = Some(Box::new(ask));
    Asking(())
}

/// There is something to keep.
#[must_use]
pub(super) struct Asking(());

impl Drop for Asking {
    fn drop(&mut self) {
        state().ask = None;
    }
}
