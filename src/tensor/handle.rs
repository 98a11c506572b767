//! A tensor: a shape over a storage. Cloning one is another handle on the same tensor, as a second Python variable or C++ handle is;
//! [`alias`](Tensor::alias) and [`view`](Tensor::view) make a new tensor over the same storage, of which a view holds its base. PyTorch
//! decides by both counts whether a gradient may be taken over or added to in place, so both can be read.

use std::rc::Rc;

use super::storage::Storage;
use crate::device::Operand;
use crate::meta::{DType, Shape, TensorMeta};
use crate::record::Category;

/// A handle on a tensor. Its storage is freed with the last handle of the last tensor over it.
#[derive(Debug, Clone)]
pub struct Tensor(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    meta: Rc<TensorMeta>,
    storage: Rc<Storage>,
    /// Where in the storage the first element is, in elements.
    offset: u64,
    /// A view is never alone with its storage.
    base: Option<Tensor>,
}

impl Tensor {
    /// A tensor over a storage of its own.
    #[must_use]
    pub fn new(meta: impl Into<Rc<TensorMeta>>, storage: Storage) -> Self {
        Self(Rc::new(Inner { meta: meta.into(), storage: Rc::new(storage), offset: 0, base: None }))
    }

    /// Another tensor over the same storage, beginning where this one does.
    #[must_use]
    pub fn alias(&self, meta: impl Into<Rc<TensorMeta>>) -> Self {
        self.alias_at(meta, 0)
    }

    /// Another tensor over the same storage that begins `offset` elements behind this one's beginning.
    #[must_use]
    pub fn alias_at(&self, meta: impl Into<Rc<TensorMeta>>, offset: u64) -> Self {
        let offset = self.0.offset + offset;
        Self(Rc::new(Inner { meta: meta.into(), storage: Rc::clone(&self.0.storage), offset, base: None }))
    }

    /// A view of this tensor: an alias that PyTorch keeps track of, and that holds its base (this tensor, or what this is a view of).
    #[must_use]
    pub fn view(&self, meta: impl Into<Rc<TensorMeta>>) -> Self {
        self.view_at(meta, 0)
    }

    /// Such a view that begins `offset` elements behind this tensor's beginning.
    #[must_use]
    pub fn view_at(&self, meta: impl Into<Rc<TensorMeta>>, offset: u64) -> Self {
        let base = self.0.base.as_ref().unwrap_or(self).clone();
        let offset = self.0.offset + offset;
        Self(Rc::new(Inner { meta: meta.into(), storage: Rc::clone(&self.0.storage), offset, base: Some(base) }))
    }

    /// Where in its storage it begins, in elements.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Another tensor of the same shape over the same storage.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.alias(Rc::clone(&self.0.meta))
    }

    /// Shape, element type and strides.
    #[must_use]
    pub fn meta(&self) -> &TensorMeta {
        &self.0.meta
    }

    /// The same, to keep or to give to another tensor.
    #[must_use]
    pub fn shared_meta(&self) -> Rc<TensorMeta> {
        Rc::clone(&self.0.meta)
    }

    /// Sizes of the dimensions.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.0.meta.shape
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.0.meta.dtype
    }

    /// Whether this is the last handle on the last tensor over its storage.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.use_count() == 1 && Rc::strong_count(&self.0.storage) == 1
    }

    /// Handles on this tensor.
    #[must_use]
    pub fn use_count(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// Whether both are handles on one tensor.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Whether both lie in the same storage.
    #[must_use]
    pub fn shares_storage(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0.storage, &other.0.storage)
    }

    /// Gives its storage another role, for all tensors over it.
    pub fn set_category(&self, category: Category) {
        self.0.storage.set_category(category);
    }

    /// What device code sees of it.
    #[must_use]
    pub fn operand(&self) -> Operand<'_> {
        let address = self.0.storage.address();
        let begin = if address == 0 { 0 } else { address + self.0.offset * self.dtype().bytes() };
        Operand { address: begin, meta: &self.0.meta }
    }
}
