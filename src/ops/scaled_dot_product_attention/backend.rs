//! Which implementation PyTorch takes (`sdp_utils.cpp`): the first of its list that can compute what is asked for on the GPU at hand.

use crate::meta::DType;

/// An implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// cuDNN's.
    Cudnn,
    /// FlashAttention.
    Flash,
    /// Memory-efficient attention (from xFormers).
    Efficient,
    /// Written out in other operators.
    Math,
}

/// What the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// Of queries, keys and values.
    pub dtype: DType,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Heads of the queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Positions.
    pub length: u64,
    /// Features of a head.
    pub head: u64,
    /// Whether weights are dropped.
    pub dropout: bool,
    /// Whether gradients will be wanted.
    pub gradients: bool,
}

/// The largest head that the fused kernels take.
const MOST_FEATURES: u64 = 256;

impl Backend {
    /// The backend of that name in experiment files.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "math" => Some(Self::Math),
            "efficient" => Some(Self::Efficient),
            "flash" => Some(Self::Flash),
            _ => None,
        }
    }

    /// Its name in experiment files; cuDNN's cannot be asked for.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cudnn => "cudnn",
            Self::Flash => "flash",
            Self::Efficient => "efficient",
            Self::Math => "math",
        }
    }

    /// PyTorch's choice.
    #[must_use]
    pub fn chosen(call: &Call) -> Self {
        // With cuDNN 9.15 or later it comes first where it is the fastest.
        let cudnn_first = matches!(call.capability, (9 | 10, 0));
        let first = cudnn_first.then_some(Self::Cudnn);
        let order = first.into_iter().chain([Self::Flash, Self::Efficient, Self::Math]);
        order.into_iter().find(|b| b.takes(call)).expect("the last takes everything")
    }

    /// Whether it can compute that.
    #[must_use]
    pub fn takes(self, call: &Call) -> bool {
        match self {
            Self::Cudnn => call.dtype.is_half() && call.head.is_multiple_of(8) && call.head <= MOST_FEATURES && call.length > 1,
            Self::Flash => {
                call.dtype.is_half() && call.capability >= (8, 0) && call.head <= MOST_FEATURES && !call.is_beyond_small_multiprocessors()
            }
            Self::Efficient => {
                let known = match call.dtype {
                    DType::F32 | DType::F16 => true,
                    DType::BF16 => call.capability >= (8, 0),
                    _ => false,
                };
                known && call.kv_heads == call.heads && call.head.is_multiple_of(call.alignment())
            }
            Self::Math => true,
        }
    }
}

impl Call {
    /// FlashAttention's backward of large heads does not fit the multiprocessors of 8.6 and 8.9.
    fn is_beyond_small_multiprocessors(&self) -> bool {
        let small = matches!(self.capability, (8, 6 | 9) | (12, _));
        self.gradients && small && ((193..=224).contains(&self.head) || (self.head > 224 && self.dropout))
    }

    /// What the memory-efficient kernels' loads need a head to be a multiple of.
    fn alignment(&self) -> u64 {
        match (self.dtype.is_half(), self.capability.0) {
            (true, _) => 8,
            (false, 8..) => 4,
            (false, _) => 1,
        }
    }
}
