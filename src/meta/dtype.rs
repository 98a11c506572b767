//! Element types, by PyTorch's names and widths.

use std::fmt;

/// The type of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE double precision, 8 bytes.
    F64,
    /// IEEE single precision, 4 bytes.
    F32,
    /// IEEE half precision, 2 bytes.
    F16,
    /// bfloat16, 2 bytes.
    BF16,
    /// Signed 64-bit integer: tokens, class targets, `num_batches_tracked`.
    I64,
    /// One byte a value: dropout masks.
    Bool,
    /// One raw byte: library reserve buffers.
    U8,
}

impl DType {
    /// Width of one element in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Bool | Self::U8 => 1,
        }
    }

    /// Whether gradients can flow through it.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::BF16)
    }

    /// Whether it is one of the two 16-bit floating types.
    #[must_use]
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }

    /// The type PyTorch accumulates in on CUDA: f64 for f64, f32 for the other floating types.
    #[must_use]
    pub const fn accumulator(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            Self::I64 | Self::Bool | Self::U8 => Self::I64,
            _ => Self::F32,
        }
    }

    /// The name in experiment files and CSVs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I64 => "i64",
            Self::Bool => "bool",
            Self::U8 => "u8",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
