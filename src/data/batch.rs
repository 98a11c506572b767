//! Batches: samples side by side as the bytes that a device takes.

use std::time::{Duration, Instant};

use half::{bf16, f16};

use super::sample::{Array, Part, elements};
use crate::meta::DType;

/// A place in a batch that samples go into: the model's input, or the loss's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// What it is called in messages, e.g. `the model's input`.
    pub name: &'static str,
    /// The shape of one sample.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub dtype: DType,
    /// Where elements are numbers of something: what, and how many there are.
    pub below: Option<(&'static str, u64)>,
}

impl Slot {
    pub(super) fn shape_text(&self) -> String {
        format!("{:?}", self.shape)
    }

    /// Whether samples of this layout can go in.
    pub(super) fn takes(&self, part: &Part) -> Result<(), String> {
        if part.shape != self.shape {
            return Err(format!("a sample has shape {:?}, but {} takes {:?}", part.shape, self.name, self.shape));
        }
        match self.below {
            Some((what, _)) if !part.whole => Err(format!("{} takes whole numbers, one a {what}, but the data has fractions", self.name)),
            _ => Ok(()),
        }
    }

    /// Bytes of one sample.
    pub(super) fn bytes(&self) -> usize {
        elements(&self.shape).expect("the batch was checked") * usize::try_from(self.dtype.bytes()).expect("a width is small")
    }

    /// Appends one sample's elements.
    ///
    /// # Errors
    /// A sentence where the shape is another or an element is out of range.
    pub(super) fn append(&self, array: &Array, bytes: &mut Vec<u8>) -> Result<(), String> {
        if array.shape != self.shape {
            return Err(format!("has shape {:?}, but {} takes {:?}", array.shape, self.name, self.shape));
        }
        if let Some((what, below)) = self.below {
            let fits = |v: &f64| *v >= 0.0 && *v < below as f64 && v.fract() == 0.0;
            if let Some(wrong) = array.values.iter().find(|v| !fits(v)) {
                return Err(format!("the {what} {wrong} is out of range: {what}s are 0 to {}", below - 1));
            }
        }
        let values = array.values.iter();
        match self.dtype {
            DType::F64 => values.for_each(|v| bytes.extend(v.to_ne_bytes())),
            DType::F32 => values.for_each(|v| bytes.extend((*v as f32).to_ne_bytes())),
            // By way of f32, as PyTorch makes halves.
            DType::F16 => values.for_each(|v| bytes.extend(f16::from_f32(*v as f32).to_ne_bytes())),
            DType::BF16 => values.for_each(|v| bytes.extend(bf16::from_f32(*v as f32).to_ne_bytes())),
            DType::I64 => values.for_each(|v| bytes.extend((*v as i64).to_ne_bytes())),
            DType::Bool | DType::U8 => bytes.extend(values.map(|v| *v as u8)),
        }
        Ok(())
    }
}

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// The input's elements, sample after sample.
    pub input: Vec<u8>,
    /// The target's, where the loss has one.
    pub target: Option<Vec<u8>>,
    /// Time that workers spent on it, added up.
    pub preparing: Duration,
    /// When the first of them began, and the last was done.
    pub when: Option<(Instant, Instant)>,
}
