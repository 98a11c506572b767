//! Shapes: sizes of dimensions, outermost first. A shape's element count always fits in 63 bits; construction checks it.

use std::fmt;

use super::bytes::SizeError;

/// The sizes of a tensor's dimensions, outermost first. `[]` is a scalar.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: Vec<u64>,
}

impl Shape {
    /// A shape, refused where its element count (at 8 bytes an element) leaves 63 bits.
    ///
    /// # Errors
    /// [`SizeError`] naming the product.
    pub fn new(dims: impl Into<Vec<u64>>) -> Result<Self, SizeError> {
        let dims = dims.into();
        let fits = dims.iter().try_fold(8u64, |n, &d| n.checked_mul(d)).is_some_and(|n| i64::try_from(n).is_ok());
        if fits { Ok(Self { dims }) } else { Err(SizeError { what: format!("a tensor of shape {}", Joined(&dims)) }) }
    }

    /// The scalar shape.
    #[must_use]
    pub const fn scalar() -> Self {
        Self { dims: Vec::new() }
    }

    /// Dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements; 1 for a scalar.
    #[must_use]
    pub fn numel(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Size of the last dimension; 1 for a scalar.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.dims.last().copied().unwrap_or(1)
    }

    /// Number of rows when all but the last dimension are folded into one.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.dims.split_last().map_or(1, |(_, lead)| lead.iter().product())
    }

    /// The same shape with another last dimension.
    ///
    /// # Errors
    /// [`SizeError`] where the product leaves 63 bits.
    pub fn with_last(&self, last: u64) -> Result<Self, SizeError> {
        let mut dims = self.dims.clone();
        if let Some(d) = dims.last_mut() {
            *d = last;
        }
        Self::new(dims)
    }

    /// Strides, in elements, of a contiguous tensor of this shape.
    #[must_use]
    pub fn contiguous_strides(&self) -> Vec<u64> {
        let mut strides = vec![1; self.dims.len()];
        for i in (1..self.dims.len()).rev() {
            strides[i - 1] = strides[i] * self.dims[i].max(1);
        }
        strides
    }
}

struct Joined<'a>(&'a [u64]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Joined(&self.dims).fmt(f)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
