//! Samples on their way: an input and, mostly, a target. Values are held as f64, which every format's numbers fit but integers beyond
//! 2^53, and become the device's type once, in the batch.

/// Numbers in a shape, row-major.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Array {
    /// Sizes of the dimensions; `[]` is one number.
    pub shape: Vec<u64>,
    /// The numbers.
    pub values: Vec<f64>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// What the model is given.
    pub input: Array,
    /// What the loss is given.
    pub target: Option<Array>,
}

/// What is known of every sample's input, or target, without reading them all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Sizes of the dimensions.
    pub shape: Vec<u64>,
    /// Whether its numbers are whole ones.
    pub whole: bool,
}

/// What is known of every sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Of the input.
    pub input: Part,
    /// Of the target.
    pub target: Option<Part>,
}

/// The number of elements of a shape, where the program can address them.
pub(super) fn elements(shape: &[u64]) -> Option<usize> {
    shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).filter(|n| n.checked_mul(8).is_some()).and_then(|n| usize::try_from(n).ok())
}
