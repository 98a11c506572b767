//! Variables: tensors with their place in the graph.

use std::cell::RefCell;
use std::rc::Rc;

use super::node::{Edge, Node};
use crate::meta::TensorMeta;
use crate::tensor::Tensor;

/// A tensor and, where it requires a gradient, the edge along which that gradient flows.
#[derive(Debug, Clone)]
pub struct Variable {
    pub(super) tensor: Tensor,
    pub(super) edge: Option<Edge>,
    /// What it is a view of, where it is one: operators in place write through a view.
    pub(super) base: Option<Base>,
}

/// The tensor that a view was taken of.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub(super) edge: Option<Edge>,
    pub(super) meta: Rc<TensorMeta>,
}

impl Variable {
    /// A variable that requires no gradient.
    #[must_use]
    pub const fn constant(tensor: Tensor) -> Self {
        Self { tensor, edge: None, base: None }
    }

    /// Its tensor.
    #[must_use]
    pub const fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Whether gradients flow to it.
    #[must_use]
    pub const fn requires_grad(&self) -> bool {
        self.edge.is_some()
    }
}

/// A leaf: a tensor that is trained, with the gradient that backward leaves.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) tensor: Tensor,
    pub(super) grad: RefCell<Option<Tensor>>,
}

/// A trained tensor of the model.
#[derive(Debug, Clone)]
pub struct Parameter {
    leaf: Rc<Leaf>,
    accumulate: Rc<Node>,
}

impl Parameter {
    /// A parameter without a gradient.
    #[must_use]
    pub fn new(tensor: Tensor) -> Self {
        let leaf = Rc::new(Leaf { tensor, grad: RefCell::new(None) });
        let accumulate = Rc::new(Node::accumulating(Rc::clone(&leaf)));
        Self { leaf, accumulate }
    }

    /// Its tensor.
    #[must_use]
    pub fn tensor(&self) -> &Tensor {
        &self.leaf.tensor
    }

    /// The parameter as an argument of operators.
    #[must_use]
    pub fn variable(&self) -> Variable {
        Variable { tensor: self.leaf.tensor.clone(), edge: Some(Edge::to(Rc::clone(&self.accumulate), 0)), base: None }
    }

    /// Its gradient, where backward left one.
    #[must_use]
    pub fn grad(&self) -> Option<Tensor> {
        self.leaf.grad.borrow().clone()
    }

    /// Forgets the gradient (`zero_grad(set_to_none=True)`).
    pub fn zero_grad(&self) {
        self.leaf.grad.take();
    }
}
