//! The allocator's settings, by PyTorch's names and with PyTorch's limits. A value of this type is always within them;
//! text is read in [`settings`](super::settings).

use super::size::{LARGE_SEGMENT, MIN_LARGE_ALLOC};
use crate::meta::bytes::MIB;
use crate::meta::plain;

/// How the allocator rounds, splits, collects and limits. `Default` is PyTorch's.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocatorConfig {
    pub(super) max_split_size: u64,
    /// `None` is as much as a large segment.
    max_non_split_rounding: Option<u64>,
    pub(super) garbage_collection_threshold: f64,
    pub(super) roundup_power2_divisions: Divisions,
    pub(super) large_segment_size: u64,
    /// Whether segments grow in place, page by page, instead of being allocated whole.
    pub expandable_segments: bool,
    /// Bytes that may be reserved at once, exactly; `None` is all that the backing has.
    pub memory_limit: Option<u64>,
    pub(super) per_process_memory_fraction: f64,
}

impl Default for AllocatorConfig {
    fn default() -> Self {
        Self {
            max_split_size: u64::MAX,
            max_non_split_rounding: None,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: Divisions::default(),
            large_segment_size: LARGE_SEGMENT,
            expandable_segments: false,
            memory_limit: None,
            per_process_memory_fraction: 1.0,
        }
    }
}

impl AllocatorConfig {
    /// The same settings under another limit, or under none, in place of a limit and of a share of the memory.
    #[must_use]
    pub fn with_limit(&self, memory_limit: Option<u64>) -> Self {
        Self { memory_limit, per_process_memory_fraction: 1.0, ..self.clone() }
    }

    /// Blocks of this many MiB and more are never split.
    ///
    /// # Errors
    /// [`ConfigError::TooSmall`] below a large segment.
    pub fn set_max_split_size_mb(&mut self, mb: u64) -> Result<(), ConfigError> {
        self.max_split_size = mebibytes("max_split_size_mb", mb, self.large_segment_size / MIB)?;
        Ok(())
    }

    /// How much larger than the request, in MiB, a block that may not be split can be and still be taken.
    ///
    /// # Errors
    /// [`ConfigError::TooSmall`] below a large segment.
    pub fn set_max_non_split_rounding_mb(&mut self, mb: u64) -> Result<(), ConfigError> {
        self.max_non_split_rounding = Some(mebibytes("max_non_split_rounding_mb", mb, self.large_segment_size / MIB)?);
        Ok(())
    }

    /// The same in bytes: a large segment, unless it was set.
    pub(super) fn max_non_split_rounding(&self) -> u64 {
        self.max_non_split_rounding.unwrap_or(self.large_segment_size)
    }

    /// The segment, in MiB, that blocks between 1 MiB and 10 MiB share. Other sizes are measured by it, so it is set before them.
    ///
    /// # Errors
    /// [`ConfigError::TooSmall`] below 11, and where another size was set to less.
    pub fn set_large_segment_size_mb(&mut self, mb: u64) -> Result<(), ConfigError> {
        let size = mebibytes("large_segment_size_mb", mb, MIN_LARGE_ALLOC / MIB + 1)?;
        mebibytes("max_split_size_mb", self.max_split_size / MIB, size / MIB)?;
        mebibytes("max_non_split_rounding_mb", self.max_non_split_rounding.unwrap_or(size) / MIB, size / MIB)?;
        self.large_segment_size = size;
        Ok(())
    }

    /// The share of the memory limit above which unused segments are given back before new ones are asked for.
    ///
    /// # Errors
    /// [`ConfigError::Threshold`] outside (0, 1).
    pub fn set_garbage_collection_threshold(&mut self, share: f64) -> Result<(), ConfigError> {
        if share > 0.0 && share < 1.0 {
            self.garbage_collection_threshold = share;
            Ok(())
        } else {
            Err(ConfigError::Threshold { share })
        }
    }

    /// The share of all memory that may be reserved at once; 1 is all of it. A memory limit that is lower counts.
    ///
    /// # Errors
    /// [`ConfigError::Fraction`] outside [0, 1].
    pub fn set_per_process_memory_fraction(&mut self, share: f64) -> Result<(), ConfigError> {
        if (0.0..=1.0).contains(&share) {
            self.per_process_memory_fraction = share;
            Ok(())
        } else {
            Err(ConfigError::Fraction { share })
        }
    }

    /// Memory of a device that stands in for a GPU with `total` bytes: a higher limit asks for as much, to see what a model would need.
    #[must_use]
    pub fn stand_in_memory(&self, total: u64) -> u64 {
        self.memory_limit.map_or(total, |limit| limit.max(total))
    }

    /// Bytes that may be reserved at once where there are `total`, if fewer than all.
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss, clippy::cast_possible_truncation)] // PyTorch's own double arithmetic
    #[must_use]
    pub fn limit(&self, total: u64) -> Option<u64> {
        let share = (self.per_process_memory_fraction < 1.0).then_some((self.per_process_memory_fraction * total as f64) as u64);
        match (self.memory_limit, share) {
            (Some(limit), Some(share)) => Some(limit.min(share)),
            (limit, share) => limit.or(share),
        }
    }

    /// Steps between powers of two to which requests are rounded.
    pub fn set_roundup_power2_divisions(&mut self, divisions: Divisions) {
        self.roundup_power2_divisions = divisions;
    }

    /// The largest block that may be split, in bytes; `None` is any.
    #[must_use]
    pub fn max_split_size(&self) -> Option<u64> {
        (self.max_split_size != u64::MAX).then_some(self.max_split_size)
    }

    /// The share of the memory limit above which garbage is collected; 0 where it never is.
    #[must_use]
    pub fn garbage_collection_threshold(&self) -> f64 {
        self.garbage_collection_threshold
    }

    /// Steps between powers of two to which requests are rounded.
    #[must_use]
    pub fn roundup_power2_divisions(&self) -> &Divisions {
        &self.roundup_power2_divisions
    }

    /// What must be reserved before garbage is collected, in bytes; `None` where it never is: PyTorch collects only under a limit.
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss, clippy::cast_possible_truncation)] // PyTorch's own double arithmetic
    pub(super) fn garbage_threshold(&self) -> Option<u64> {
        let share = Some(self.garbage_collection_threshold).filter(|&share| share > 0.0)?;
        Some((share * self.memory_limit? as f64) as u64)
    }
}

fn mebibytes(key: &'static str, mb: u64, least_mb: u64) -> Result<u64, ConfigError> {
    if mb < least_mb { Err(ConfigError::TooSmall { key, mb, least_mb }) } else { Ok(mb.min(u64::MAX / MIB) * MIB) }
}

/// `roundup_power2_divisions`: steps per power of two, for sixteen intervals from 1 MiB (and below) to 32 GiB (and above). 0 and 1 are
/// no rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Divisions {
    steps: [u64; Self::INTERVALS],
    /// Whether any entry rounds: lets the usual case skip the look-up.
    any: bool,
}

impl Divisions {
    /// Intervals: 1 MiB, 2 MiB, 4 MiB, … 32 GiB.
    pub const INTERVALS: usize = 16;

    /// The same number of steps in every interval.
    ///
    /// # Errors
    /// [`ConfigError::NotAPowerOfTwo`].
    pub fn uniform(steps: u64) -> Result<Self, ConfigError> {
        if steps.is_power_of_two() {
            Ok(Self::from_steps([steps; Self::INTERVALS]))
        } else {
            Err(ConfigError::NotAPowerOfTwo { what: "divisions", value: steps })
        }
    }

    pub(super) fn from_steps(steps: [u64; Self::INTERVALS]) -> Self {
        Self { steps, any: steps.iter().any(|&s| s > 1) }
    }

    /// Steps of each interval, lowest first.
    #[must_use]
    pub fn steps(&self) -> &[u64; Self::INTERVALS] {
        &self.steps
    }

    /// Steps for a request of `bytes` ≥ 1.
    #[inline]
    pub(super) fn at(&self, bytes: u64) -> u64 {
        if !self.any {
            return 0;
        }
        let interval = bytes.ilog2().saturating_sub(MIB.ilog2()) as usize;
        self.steps[interval.min(Self::INTERVALS - 1)]
    }
}

/// A setting outside PyTorch's limits, or text that is not one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum ConfigError {
    #[error("{key} is {mb}, but must be at least {least_mb} (MiB)")]
    TooSmall { key: &'static str, mb: u64, least_mb: u64 },
    #[error("garbage_collection_threshold is {share}, but must lie between 0 and 1, both excluded")]
    Threshold { share: f64 },
    #[error("per_process_memory_fraction is {share}, but must lie between 0 and 1")]
    Fraction { share: f64 },
    #[error("backend is `{}`, but this allocator is PyTorch's `native`", plain(found))]
    Backend { found: String },
    #[error("{key} is {value}, but must be a power of two and at most {most}")]
    Threads { key: &'static str, value: u64, most: u64 },
    #[error("roundup_power2_divisions: {what} must be powers of two, {value} is not")]
    NotAPowerOfTwo { what: &'static str, value: u64 },
    #[error("`{}` is no allocator setting; there are {}", plain(key), super::settings::KEYS.join(", "))]
    UnknownKey { key: String },
    #[error("{key}: expected {expected}, found `{}`", plain(found))]
    Value { key: &'static str, expected: &'static str, found: String },
    #[error("expected `{expected}` after `{}`, found {}", plain(after), .found.as_ref().map_or("the end".into(), |f| format!("`{}`", plain(f))))]
    Token { expected: char, after: String, found: Option<String> },
}
