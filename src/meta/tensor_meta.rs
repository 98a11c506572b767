//! What a tensor is, without its storage: shape, element type, strides.

use super::{DType, Shape};

/// Shape, element type and strides (in elements) of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMeta {
    /// Sizes of the dimensions.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// Step of each dimension, in elements; 0 where a dimension is expanded.
    pub strides: Vec<u64>,
}

impl TensorMeta {
    /// A contiguous tensor.
    #[must_use]
    pub fn contiguous(shape: Shape, dtype: DType) -> Self {
        let strides = shape.contiguous_strides();
        Self { shape, dtype, strides }
    }

    /// A contiguous scalar.
    #[must_use]
    pub fn scalar(dtype: DType) -> Self {
        Self::contiguous(Shape::scalar(), dtype)
    }

    /// A one-element tensor spread over `shape` with stride 0: what `sum`'s backward passes on.
    #[must_use]
    pub fn expanded(shape: Shape, dtype: DType) -> Self {
        let strides = vec![0; shape.rank()];
        Self { shape, dtype, strides }
    }

    /// The tensor as seen when broadcast to `shape`: stride 0 along every dimension that it lacks or has once.
    ///
    /// # Panics
    /// It does not broadcast to that shape.
    #[must_use]
    pub fn broadcast_to(&self, shape: &Shape) -> Self {
        let mut strides = vec![0; shape.rank()];
        let own = self.shape.dims().iter().zip(&self.strides).rev();
        let mut wanted = shape.dims().iter().zip(&mut strides).rev();
        for (&size, &step) in own {
            let (&target, stride) = wanted.next().expect("a tensor is broadcast to no fewer dimensions than it has");
            assert!(size == target || size == 1, "{} does not broadcast to {shape}", self.shape);
            *stride = if size == 1 { 0 } else { step };
        }
        Self { shape: shape.clone(), dtype: self.dtype, strides }
    }

    /// The same shape, contiguous, in another element type.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self::contiguous(self.shape.clone(), dtype)
    }

    /// A fresh contiguous tensor of this shape and type.
    #[must_use]
    pub fn like(&self) -> Self {
        self.with_dtype(self.dtype)
    }

    /// The same elements in another shape without a copy; `None` where the strides do not allow it.
    #[must_use]
    pub fn viewed(&self, shape: &Shape) -> Option<Self> {
        if self.is_contiguous() {
            return Some(Self::contiguous(shape.clone(), self.dtype));
        }
        let strides = strides_of_view(self.shape.dims(), &self.strides, shape.dims())?;
        Some(Self { shape: shape.clone(), dtype: self.dtype, strides })
    }

    /// The same elements with two dimensions exchanged.
    #[must_use]
    pub fn transposed(&self, first: usize, second: usize) -> Self {
        let mut dims = self.shape.dims().to_vec();
        let mut strides = self.strides.clone();
        dims.swap(first, second);
        strides.swap(first, second);
        Self { shape: Shape::new(dims).expect("as many elements as before"), dtype: self.dtype, strides }
    }

    /// A fresh tensor of this shape and type without gaps, its dimensions in memory in the order of this one's (PyTorch's
    /// `infer_dense_strides`): what elementwise operators and casts make.
    #[must_use]
    pub fn dense(&self) -> Self {
        if self.is_dense() { self.clone() } else { Self::over(self.shape.clone(), self.dtype, &[self]) }
    }

    /// The fresh output of an elementwise operator over operands that are broadcast to `shape`, its dimensions in memory in the order of
    /// theirs; the first operand that says which of two dimensions lies further in is heard (`TensorIterator::reorder_dimensions`).
    #[must_use]
    pub fn over(shape: Shape, dtype: DType, operands: &[&Self]) -> Self {
        if operands.iter().all(|t| t.shape == shape && t.is_contiguous()) {
            return Self::contiguous(shape, dtype);
        }
        let first = operands[0];
        if operands.iter().all(|t| t.shape == shape && t.strides == first.strides && t.is_dense()) {
            return Self { shape, dtype, strides: first.strides.clone() };
        }
        let spread: Vec<Vec<u64>> = operands.iter().map(|t| t.strides_within(&shape)).collect();
        let dims = shape.dims();
        // Whether `inner` should rather lie outside `outer`; a broadcast dimension tells nothing of its place.
        let swaps = |inner: usize, outer: usize| {
            for strides in &spread {
                let (a, b) = (strides[inner], strides[outer]);
                if a == 0 || b == 0 {
                    continue;
                }
                if a != b {
                    return Some(a > b);
                }
                if dims[inner] > dims[outer] {
                    return Some(true);
                }
            }
            None
        };
        // Innermost first.
        let mut order: Vec<usize> = (0..dims.len()).rev().collect();
        for i in 1..order.len() {
            let mut at = i;
            for before in (0..i).rev() {
                match swaps(order[before], order[at]) {
                    Some(true) => {
                        order.swap(before, at);
                        at = before;
                    }
                    Some(false) => break,
                    None => {}
                }
            }
        }
        let mut strides = vec![0; dims.len()];
        let mut step = 1;
        for d in order {
            strides[d] = step;
            step *= dims[d].max(1);
        }
        Self { shape, dtype, strides }
    }

    /// Strides when broadcast to `shape`, which it does: 0 along every dimension that it lacks, or has once where `shape` has more.
    fn strides_within(&self, shape: &Shape) -> Vec<u64> {
        let missing = shape.rank() - self.shape.rank();
        let own = self.shape.dims().iter().zip(&self.strides).zip(&shape.dims()[missing..]);
        let own = own.map(|((&size, &step), &target)| if size == 1 && target != 1 { 0 } else { step });
        std::iter::repeat_n(0, missing).chain(own).collect()
    }

    /// Number of elements.
    #[must_use]
    pub fn numel(&self) -> u64 {
        self.shape.numel()
    }

    /// Bytes that a contiguous tensor of this shape and type asks of the allocator.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.numel() * self.dtype.bytes()
    }

    /// Whether elements lie one after another in row-major order (dimensions of size 1 may have any stride).
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&d, &s) in self.shape.dims().iter().zip(&self.strides).rev() {
            if d == 1 {
                continue;
            }
            if s != expected {
                return false;
            }
            expected *= d;
        }
        true
    }

    /// Whether it is one element spread over more than one place, with stride 0 throughout.
    #[must_use]
    pub fn is_expanded_scalar(&self) -> bool {
        self.numel() > 1 && self.shape.dims().iter().zip(&self.strides).all(|(&d, &s)| d == 1 || s == 0)
    }

    /// PyTorch's `is_non_overlapping_and_dense`: some order of the dimensions makes it contiguous.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        let mut dims: Vec<(u64, u64)> =
            self.strides.iter().copied().zip(self.shape.dims().iter().copied()).filter(|&(_, d)| d != 1).collect();
        dims.sort_unstable();
        let mut expected = 1;
        dims.into_iter().all(|(s, d)| {
            let ok = s == expected;
            expected *= d;
            ok
        })
    }
}

/// Dimensions are taken from the last: those that lie dense in one another form a group, and the new dimensions must tile each
/// group exactly (`at::detail::computeStride`).
fn strides_of_view(old: &[u64], strides: &[u64], new: &[u64]) -> Option<Vec<u64>> {
    let mut result = vec![0; new.len()];
    let mut left = new.len();
    let Some(mut base) = strides.last().copied() else {
        return Some(vec![1; new.len()]);
    };
    let (mut elements, mut tiled) = (1, 1);
    for d in (0..old.len()).rev() {
        elements *= old[d];
        let group_ends = d == 0 || (old[d - 1] != 1 && strides[d - 1] != elements * base);
        if !group_ends {
            continue;
        }
        while left > 0 && (tiled < elements || new[left - 1] == 1) {
            left -= 1;
            result[left] = tiled * base;
            tiled *= new[left];
        }
        if tiled != elements {
            return None;
        }
        if d > 0 {
            base = strides[d - 1];
            (elements, tiled) = (1, 1);
        }
    }
    (left == 0).then_some(result)
}
