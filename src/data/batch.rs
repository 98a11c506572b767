//! Batches: samples side by side as the bytes that a device takes.

use std::time::{Duration, Instant};

use half::{bf16, f16};

use super::sample::{Array, Part, elements};
use crate::meta::{DType, in_short};

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

    /// Whether a sample can go in.
    ///
    /// # Errors
    /// A sentence where its shape is another or an element is out of range.
    pub(super) fn check(&self, array: &Array) -> Result<(), String> {
        if array.shape != self.shape {
            return Err(format!("has shape {:?}, but {} takes {:?}", array.shape, self.name, self.shape));
        }
        if let Some((what, below)) = self.below {
            let fits = |v: &f64| *v >= 0.0 && *v < below as f64 && v.fract() == 0.0;
            if let Some(wrong) = array.values.iter().find(|v| !fits(v)) {
                return Err(format!("the {what} {} is out of range: {what}s are 0 to {}", in_short(*wrong), below - 1));
            }
        }
        Ok(())
    }

    /// Writes one sample's elements into memory for as many.
    ///
    /// # Errors
    /// As [`check`](Self::check) says.
    pub(super) fn write(&self, array: &Array, bytes: &mut [u8]) -> Result<(), String> {
        self.check(array)?;
        let values = &array.values;
        match self.dtype {
            DType::F64 => put(bytes, values, f64::to_ne_bytes),
            DType::F32 => put(bytes, values, |v| (v as f32).to_ne_bytes()),
            // By way of f32, as PyTorch makes halves.
            DType::F16 => put(bytes, values, |v| f16::from_f32(v as f32).to_ne_bytes()),
            DType::BF16 => put(bytes, values, |v| bf16::from_f32(v as f32).to_ne_bytes()),
            DType::I64 => put(bytes, values, |v| (v as i64).to_ne_bytes()),
            DType::Bool | DType::U8 => put(bytes, values, |v| [v as u8]),
        }
        Ok(())
    }
}

fn put<const N: usize>(bytes: &mut [u8], values: &[f64], encode: impl Fn(f64) -> [u8; N]) {
    let (places, rest) = bytes.as_chunks_mut::<N>();
    assert!(rest.is_empty() && places.len() == values.len(), "a sample fills its place in the batch");
    for (place, value) in places.iter_mut().zip(values) {
        *place = encode(*value);
    }
}

/// A batch, in memory of a kind that whoever takes it chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<M> {
    /// The input's elements, sample after sample, in as many pieces as the batch was made in.
    pub input: Vec<M>,
    /// The target's, where the loss has one.
    pub target: Option<Vec<M>>,
    /// Time that workers spent on it, added up.
    pub preparing: Duration,
    /// When the first of them began, and the last was done.
    pub when: (Instant, Instant),
}
