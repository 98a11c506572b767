//! A tensor's elements in row-major order, whatever its strides and element type.
//!
//! Invariant: element `i` is the same for every view of one shape, so that operands can be walked side by side.

use super::arena::Extent;
use super::element::{Real, load, store};
use crate::device::Operand;
use crate::meta::{DType, TensorMeta};

/// Where elements lie, dimensions merged where one walk covers both.
#[derive(Debug, Clone)]
struct Layout {
    /// Size and stride of each dimension, outermost first; at least one.
    dims: Vec<(usize, usize)>,
    elements: usize,
}

impl Layout {
    fn of(meta: &TensorMeta) -> Self {
        let mut dims: Vec<(usize, usize)> = Vec::with_capacity(meta.shape.rank());
        for (&size, &stride) in meta.shape.dims().iter().zip(&meta.strides).filter(|&(&d, _)| d != 1) {
            let (size, stride) = (usize_of(size), usize_of(stride));
            match dims.last_mut() {
                Some(last) if last.1 == size * stride => *last = (last.0 * size, stride),
                _ => dims.push((size, stride)),
            }
        }
        if dims.is_empty() {
            dims.push((1, 1));
        }
        Self { dims, elements: usize_of(meta.numel()) }
    }

    fn is_dense(&self) -> bool {
        self.dims.len() == 1 && self.dims[0].1 == 1
    }

    /// Calls `run(offset, stride, from, length)` for each stretch of `start..start + length` along the innermost dimension:
    /// `from` counts from `start`, offset and stride are in stored elements.
    fn runs(&self, start: usize, length: usize, mut run: impl FnMut(usize, usize, usize, usize)) {
        let (&(inner, stride), outer) = self.dims.split_last().expect("a layout has a dimension");
        let mut done = 0;
        while done < length {
            let at = start + done;
            let (mut index, within) = (at / inner, at % inner);
            let mut offset = within * stride;
            for &(size, stride) in outer.iter().rev() {
                offset += index % size * stride;
                index /= size;
            }
            let take = (inner - within).min(length - done);
            run(offset, stride, done, take);
            done += take;
        }
    }
}

/// The bytes from an operand's first element to its last.
pub(super) fn extent(operand: Operand<'_>) -> Extent {
    let meta = operand.meta;
    let last: u64 = meta.shape.dims().iter().zip(&meta.strides).map(|(&d, &s)| d.saturating_sub(1) * s).sum();
    let elements = if meta.numel() == 0 { 0 } else { last + 1 };
    Extent { address: operand.address, bytes: elements * meta.dtype.bytes() }
}

/// A tensor to read.
#[derive(Debug, Clone)]
pub struct View<'a> {
    bytes: &'a [u8],
    dtype: DType,
    layout: Layout,
}

impl<'a> View<'a> {
    pub(super) fn new(bytes: &'a [u8], meta: &TensorMeta) -> Self {
        Self { bytes, dtype: meta.dtype, layout: Layout::of(meta) }
    }

    /// The elements as they are stored.
    ///
    /// # Panics
    /// They do not lie in order.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        assert!(self.layout.is_dense(), "bytes are copied from contiguous tensors");
        self.bytes
    }

    /// Values of the program's own, laid out as `meta` says.
    ///
    /// # Panics
    /// Where they are not of its element type.
    #[must_use]
    pub fn over<R: Real>(values: &'a [R], meta: &TensorMeta) -> Self {
        assert_eq!(meta.dtype, R::DTYPE, "values are of the type that their layout names");
        Self::new(bytemuck::cast_slice(values), meta)
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.elements
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements from `start` on, as many as `out` holds.
    pub fn load<R: Real>(&self, start: usize, out: &mut [R]) {
        let width = usize_of(self.dtype.bytes());
        self.layout.runs(start, out.len(), |offset, stride, from, length| {
            load(self.dtype, &self.bytes[offset * width..], stride, &mut out[from..from + length]);
        });
    }

    /// `length` elements from `start` on: the stored ones where they need no conversion, else loaded into `buffer`.
    pub fn slice<'b, R: Real>(&'b self, start: usize, length: usize, buffer: &'b mut Vec<R>) -> &'b [R] {
        if let Some(all) = self.stored() {
            return &all[start..start + length];
        }
        buffer.resize(length, R::ZERO);
        self.load(start, buffer);
        buffer
    }

    /// All elements where they lie in order and are stored as `R`.
    #[must_use]
    pub fn stored<R: Real>(&self) -> Option<&'a [R]> {
        (self.dtype == R::DTYPE && self.layout.is_dense()).then(|| bytemuck::cast_slice(self.bytes))
    }

    /// The stored elements from the first to the last, in whatever order they lie, if they are stored as `R`.
    #[must_use]
    pub fn elements<R: Real>(&self) -> Option<&'a [R]> {
        (self.dtype == R::DTYPE).then(|| bytemuck::cast_slice(self.bytes))
    }

    /// Class indices or tokens.
    ///
    /// # Panics
    /// Where they are stored as anything but contiguous i64.
    #[must_use]
    pub fn indices(&self) -> &'a [i64] {
        assert!(self.dtype == DType::I64 && self.layout.is_dense(), "indices are contiguous i64");
        bytemuck::cast_slice(self.bytes)
    }
}

/// A tensor to write.
#[derive(Debug)]
pub struct ViewMut<'a> {
    bytes: &'a mut [u8],
    dtype: DType,
    layout: Layout,
}

impl<'a> ViewMut<'a> {
    pub(super) fn new(bytes: &'a mut [u8], meta: &TensorMeta) -> Self {
        Self { bytes, dtype: meta.dtype, layout: Layout::of(meta) }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.elements
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether elements lie in order, so that [`split`](Self::split) can cut it.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.layout.is_dense()
    }

    /// Elements from `start` on, as many as `out` holds.
    pub fn load<R: Real>(&self, start: usize, out: &mut [R]) {
        let width = usize_of(self.dtype.bytes());
        self.layout.runs(start, out.len(), |offset, stride, from, length| {
            load(self.dtype, &self.bytes[offset * width..], stride, &mut out[from..from + length]);
        });
    }

    /// Replaces elements from `start` on with all of `values`.
    pub fn store<R: Real>(&mut self, start: usize, values: &[R]) {
        let width = usize_of(self.dtype.bytes());
        let Self { bytes, dtype, layout } = self;
        layout.runs(start, values.len(), |offset, stride, from, length| {
            store(*dtype, &mut bytes[offset * width..], stride, &values[from..from + length]);
        });
    }

    /// All elements where they lie in order and are stored as `R`.
    #[must_use]
    pub fn stored<R: Real>(&mut self) -> Option<&mut [R]> {
        (self.dtype == R::DTYPE && self.layout.is_dense()).then(|| bytemuck::cast_slice_mut(self.bytes))
    }

    /// Overwrites the stored bytes of a contiguous tensor.
    ///
    /// # Panics
    /// Where there are not exactly as many.
    pub fn copy_bytes(&mut self, bytes: &[u8]) {
        assert!(self.layout.is_dense(), "bytes are copied into contiguous tensors");
        self.bytes.copy_from_slice(bytes);
    }

    /// The first `at` elements and the others.
    ///
    /// # Panics
    /// Where elements do not lie in order.
    #[must_use]
    pub fn split(self, at: usize) -> (Self, Self) {
        assert!(self.is_dense(), "a tensor is cut where its elements lie in order");
        let elements = self.len();
        let (head, tail) = self.bytes.split_at_mut(at * usize_of(self.dtype.bytes()));
        let part = |bytes, elements| Self { bytes, dtype: self.dtype, layout: Layout { dims: vec![(elements, 1)], elements } };
        (part(head, at), part(tail, elements - at))
    }
}

pub(super) fn usize_of(n: u64) -> usize {
    usize::try_from(n).expect("the host addresses what it computes on")
}
