//! What can be asked of the pipeline, as plain values.

use std::path::{Path, PathBuf};

use super::batch::Slot;
use super::prepare::Step;
use super::sample::Layout;

/// `[data]` with files.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where samples come from.
    pub files: Files,
    /// What is done to each, in order.
    pub prepare: Vec<Step>,
    /// Samples among which the next is drawn; `None` keeps the order of the file.
    pub shuffle: Option<u64>,
    /// Whether the samples begin anew after the last.
    pub repeat: bool,
    /// Threads that read and prepare, at least 1.
    pub workers: usize,
    /// Batches made ready before they are asked for.
    pub prefetch: usize,
    /// Whether a GPU copies from page-locked memory.
    pub pinned: bool,
    /// For the order and for random steps.
    pub seed: u64,
}

/// Where samples come from, and in which format.
#[derive(Debug, Clone, PartialEq)]
pub enum Files {
    /// NumPy arrays, whose first dimension counts samples.
    Npy {
        /// The inputs.
        input: PathBuf,
        /// The targets.
        target: Option<PathBuf>,
    },
    /// The format of the MNIST files, whose first dimension counts samples.
    Idx {
        /// The inputs.
        input: PathBuf,
        /// The targets.
        target: Option<PathBuf>,
    },
    /// Numbers in columns, one sample a record; the first record names the columns.
    Csv {
        /// The file.
        file: PathBuf,
        /// Columns that are the target; the others, in order, are the input.
        target: Vec<String>,
        /// Whether a target of one column is a number of its own, and not a list of one.
        scalar: bool,
    },
    /// Bytes as tokens: sample i has `length` of them from `i * length` on, its target the same one further.
    Text {
        /// The file.
        file: PathBuf,
        /// Tokens a sample.
        length: u64,
    },
    /// Records of `tf.train.Example`.
    TfRecord {
        /// The file.
        file: PathBuf,
        /// The feature that is the input.
        input: String,
        /// The feature that is the target, where there is one.
        target: String,
    },
}

impl Files {
    /// The file of the inputs.
    #[must_use]
    pub fn first(&self) -> &Path {
        match self {
            Self::Npy { input, .. } | Self::Idx { input, .. } => input,
            Self::Csv { file, .. } | Self::Text { file, .. } | Self::TfRecord { file, .. } => file,
        }
    }

    /// All of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let target = match self {
            Self::Npy { target, .. } | Self::Idx { target, .. } => target.as_deref(),
            Self::Csv { .. } | Self::Text { .. } | Self::TfRecord { .. } => None,
        };
        [self.first()].into_iter().chain(target)
    }
}

/// A pipeline and what it is to deliver.
#[derive(Debug, Clone, PartialEq)]
pub struct Feed {
    /// The pipeline.
    pub settings: Settings,
    /// Samples a batch.
    pub batch: u64,
    /// The model's input.
    pub input: Slot,
    /// The loss's target, where it has one.
    pub target: Option<Slot>,
}

impl Feed {
    /// What is wrong with a run of so many batches over so many samples, if anything, and what would help.
    #[must_use]
    pub fn lack(&self, samples: u64, batches: u64) -> Option<(String, Option<&'static str>)> {
        let needed = batches.saturating_mul(self.batch);
        if samples == 0 {
            return Some(("there are no samples".to_owned(), None));
        }
        let short = !self.settings.repeat && samples < needed;
        short.then(|| {
            (format!("there are {samples} samples, and the run takes {needed}"), Some("`repeat = true` begins anew after the last"))
        })
    }

    /// What is wrong with samples of this layout, as they come from the files, if anything: the step that cannot take them, or shapes
    /// that the model and the loss do not have.
    ///
    /// # Errors
    /// A sentence that names both shapes.
    pub fn check(&self, layout: &Layout) -> Result<(), Refusal> {
        let mut layout = layout.clone();
        for (number, step) in self.settings.prepare.iter().enumerate() {
            step.layout(&mut layout).map_err(|what| Refusal { cause: Cause::Step(number), what })?;
        }
        let refuse = |what: String| Refusal { cause: Cause::Samples, what };
        let cause = if layout.input.shape == self.input.shape { Cause::Samples } else { Cause::InputShape };
        self.input.takes(&layout.input).map_err(|what| Refusal { cause, what })?;
        match (&self.target, &layout.target) {
            (Some(slot), Some(part)) => slot.takes(part).map_err(refuse),
            (Some(slot), None) => Err(refuse(format!("the loss needs targets of shape {}, and the data has none", slot.shape_text()))),
            (None, _) => Ok(()),
        }
    }
}

/// Why samples do not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What they do not fit.
    pub cause: Cause,
    /// What is wrong, as a sentence.
    pub what: String,
}

/// What samples do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A step of `prepare`, by its number.
    Step(usize),
    /// The shape of the model's input, in the end.
    InputShape,
    /// What the model and the loss take otherwise.
    Samples,
}
