//! The progress bar: on a terminal, on stderr, gone when the run ends. In a pipe there is none.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows how far a run has come.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `micro_steps`, or none where `shown` is false or stderr is no terminal.
    #[must_use]
    pub fn new(micro_steps: u64, shown: bool) -> Self {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(micro_steps), target);
        let style = ProgressStyle::with_template("{msg} [{bar:24}] {pos}/{len} {elapsed} (eta {eta})");
        bar.set_style(style.expect("the template is well formed"));
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar }
    }

    /// Says what runs now.
    pub fn name(&self, text: &str) {
        self.bar.set_message(text.to_string());
    }

    /// One micro-step is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Writes past the bar without tearing it.
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
