//! The progress bar: on a terminal, on stderr, gone when the run ends. In a pipe there is none.
//!
//! It shows how many cases are done, the case and phase under way, and how long the rest will take, reckoned in micro-steps.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::number::thousands;
use crate::record::Phase;

/// Shows how far a run has come. Clones show the same bar.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over `micro_steps` in `cases`, or none where `shown` is false or stderr is no terminal.
    #[must_use]
    pub fn new(cases: usize, micro_steps: u64, shown: bool) -> Self {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(micro_steps), target);
        let style = ProgressStyle::with_template("{prefix} [{bar:24}] {rest}  {wide_msg}").expect("the template is well formed");
        let rest = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let rest = if state.pos() == 0 { "-".to_string() } else { HumanDuration(state.eta()).to_string() };
            let _ = write!(text, "{rest} left");
        };
        bar.set_style(style.with_key("rest", rest));
        let progress = Self { bar };
        progress.done(0, cases);
        if progress.is_shown() {
            progress.bar.enable_steady_tick(Duration::from_millis(200));
        }
        progress
    }

    /// Whether anybody sees it.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// So many of the cases are done.
    pub fn done(&self, done: usize, cases: usize) {
        if self.is_shown() {
            let (done, cases) = (thousands(done as u128), thousands(cases as u128));
            self.bar.set_prefix(format!("{done} of {cases} cases"));
        }
    }

    /// This phase of that case has ended.
    pub fn at(&self, case: &str, phase: Phase) {
        if self.is_shown() {
            self.bar.set_message(format!("{case}: {phase}"));
        }
    }

    /// One micro-step is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// That many micro-steps will not be done: their case has ended early.
    pub fn skip(&self, micro_steps: u64) {
        self.bar.inc(micro_steps);
    }

    /// Writes past the bar without tearing it.
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
