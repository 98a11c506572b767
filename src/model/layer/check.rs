//! Checking shapes through the layers. All mistakes are collected; after one, checking goes on wherever the output is still known.

use std::collections::BTreeSet;

use crate::meta::Shape;
use crate::model::Loop;
use crate::model::lowering::Numerics;

/// Where in the experiment file something comes from: a number whose meaning only the reader of the file knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u32);

impl Origin {
    /// Nowhere: what no layer of the file stands for.
    pub const NONE: Self = Self(u32::MAX);
}

/// What flows between layers, as far as checking needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Samples a micro-step; `None` where the file does not say (that is then a mistake of its own).
    pub batch: Option<u64>,
    /// Shape of one sample: what stands behind the batch.
    pub sample: Vec<u64>,
    /// `Some(n)`: class indices below n (tokens), not floating-point values.
    pub vocabulary: Option<u64>,
}

impl Signal {
    /// Floating-point values of another shape for the same batch.
    #[must_use]
    pub fn with_sample(&self, sample: impl Into<Vec<u64>>) -> Self {
        Self { batch: self.batch, sample: sample.into(), vocabulary: None }
    }

    /// The whole shape, batch in front.
    #[must_use]
    pub fn dims(&self) -> Vec<u64> {
        std::iter::once(self.batch.unwrap_or(1)).chain(self.sample.iter().copied()).collect()
    }

    /// The sample's shape in words, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.vocabulary {
            Some(_) => format!("tokens of shape {:?}", self.sample),
            None => format!("{:?}", self.sample),
        }
    }
}

/// Something wrong with a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The layer.
    pub origin: Origin,
    /// The field to point at; the layer as a whole where `None`.
    pub field: Option<&'static str>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Collects the mistakes of one walk.
#[derive(Debug)]
pub struct Check {
    /// Whether modules are in training mode (batch norm then takes the batch's statistics).
    pub training: bool,
    /// Whether a tape is recorded.
    pub gradients: bool,
    /// Types, and the GPU.
    pub numerics: Numerics,
    /// The layer under way.
    pub origin: Origin,
    /// What was found.
    pub mistakes: Vec<Mistake>,
    /// The same, for looking up: layers that are used often are checked often.
    seen: BTreeSet<(Origin, String)>,
}

impl Check {
    /// An empty collection.
    #[must_use]
    pub fn new(settings: &Loop) -> Self {
        let (training, gradients, numerics) = (settings.trains(), !settings.no_grad, settings.numerics());
        Self { training, gradients, numerics, origin: Origin::default(), mistakes: Vec::new(), seen: BTreeSet::new() }
    }

    /// Notes a mistake of the layer under way.
    pub fn mistake(&mut self, message: impl Into<String>) {
        self.push(None, message.into(), None);
    }

    /// Notes a mistake of the layer under way, with a hint.
    pub fn mistake_with_hint(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.push(None, message.into(), Some(hint.into()));
    }

    /// Notes a mistake in a field of the layer under way.
    pub fn mistake_in(&mut self, field: &'static str, message: impl Into<String>, hint: Option<String>) {
        self.push(Some(field), message.into(), hint);
    }

    fn push(&mut self, field: Option<&'static str>, message: String, hint: Option<String>) {
        if self.seen.insert((self.origin, message.clone())) {
            self.mistakes.push(Mistake { origin: self.origin, field, message, hint });
        }
    }

    /// Checks that a tensor of this shape can exist.
    pub fn tensor(&mut self, what: &str, dims: &[u64]) -> bool {
        let fits = Shape::new(dims).is_ok();
        if !fits {
            self.mistake(format!("{what} of shape {dims:?} would have more bytes than 63 bits can count"));
        }
        fits
    }

    /// The output of a layer, unless it is too large.
    pub fn output(&mut self, out: Signal) -> Option<Signal> {
        self.tensor("an output", &out.dims()).then_some(out)
    }

    /// Checks that the input holds floating-point values, not tokens.
    pub fn floating(&mut self, name: &str, input: &Signal) -> bool {
        if input.vocabulary.is_some() {
            self.mistake_with_hint(
                format!("{name} computes on floating-point values, but its input is {}", input.describe()),
                "put an `embedding` before it",
            );
        }
        input.vocabulary.is_none()
    }

    /// Checks the number of dimensions of a sample; `form` names them, e.g. `[channels, height, width]`.
    pub fn rank(&mut self, name: &str, input: &Signal, ranks: std::ops::RangeInclusive<usize>, form: &str) -> bool {
        let fits = ranks.contains(&input.sample.len());
        if !fits {
            self.mistake(format!("{name} needs an input of shape {form}, but the layer before gives {}", input.describe()));
        }
        fits
    }
}
