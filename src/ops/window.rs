//! A pooling window that slides over the last two dimensions of [batch, channels, height, width]. Pairs are height, width.

use super::rule::ShapeError;
use crate::meta::{Shape, TensorMeta};

/// A window and how it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its size.
    pub size: [u64; 2],
    /// Its steps.
    pub stride: [u64; 2],
    /// What lies around the input, on each side.
    pub padding: [u64; 2],
}

impl Window {
    /// What is left when the window has passed over `x`: PyTorch's sizes, rounded down.
    ///
    /// # Errors
    /// Names the operator and the shape, where the window does not fit.
    pub fn pass(&self, name: &str, x: &TensorMeta) -> Result<TensorMeta, ShapeError> {
        let &[batch, channels, height, width] = x.shape.dims() else {
            return Err(ShapeError { message: format!("{name} needs four dimensions, got {}", x.shape) });
        };
        let mut dims = vec![batch, channels];
        for (axis, size) in [height, width].into_iter().enumerate() {
            let Some(room) = (size + 2 * self.padding[axis]).checked_sub(self.size[axis]) else {
                return Err(ShapeError { message: format!("{name} of window {:?} reaches over an input of shape {}", self.size, x.shape) });
            };
            dims.push(room / self.stride[axis] + 1);
        }
        Ok(TensorMeta::contiguous(Shape::new(dims)?, x.dtype))
    }

    /// Where the window at `place` of an axis of that size lies within the input: its first element, and the one after its last.
    #[must_use]
    pub fn inside(&self, axis: usize, size: usize, place: usize) -> (usize, usize) {
        let at = |n: u64| usize::try_from(n).expect("what is computed on can be addressed");
        let begin = place * at(self.stride[axis]);
        let end = begin + at(self.size[axis]);
        let padding = at(self.padding[axis]);
        (begin.saturating_sub(padding), end.saturating_sub(padding).min(size))
    }
}

/// Height and width as indices.
#[must_use]
pub fn plane(t: &TensorMeta) -> [usize; 2] {
    let dims = t.shape.dims();
    [dims[2], dims[3]].map(|d| usize::try_from(d).expect("what is computed on can be addressed"))
}

/// Planes: channels of all samples.
#[must_use]
pub fn planes(t: &TensorMeta) -> usize {
    let dims = t.shape.dims();
    usize::try_from(dims[0] * dims[1]).expect("what is computed on can be addressed")
}
