//! Variables: tensors with their place in the graph.

use std::cell::RefCell;
use std::rc::Rc;

use super::node::{Edge, Node};
use crate::meta::TensorMeta;
use crate::tensor::Tensor;

/// Where the gradient of a tensor goes, if anywhere. All variables of a tensor share it: an operator in place changes it for all.
pub(super) type History = Rc<RefCell<Option<Edge>>>;

/// A tensor and its history. As in PyTorch the history goes first: a graph that dies with its last variable dies before that tensor.
#[derive(Debug, Clone)]
pub struct Variable {
    pub(super) history: History,
    /// What it is a view of, where it is one: an operator in place writes through a view, and changes the history of its base.
    pub(super) base: Option<Base>,
    pub(super) tensor: Tensor,
}

/// The tensor that a view was taken of.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub(super) history: History,
    pub(super) meta: Rc<TensorMeta>,
    /// Where in its storage it begins.
    pub(super) offset: u64,
}

impl Variable {
    /// A variable that requires no gradient.
    #[must_use]
    pub fn constant(tensor: Tensor) -> Self {
        Self::with_edge(tensor, None)
    }

    pub(super) fn with_edge(tensor: Tensor, edge: Option<Edge>) -> Self {
        Self { history: Rc::new(RefCell::new(edge)), base: None, tensor }
    }

    /// Its tensor.
    #[must_use]
    pub const fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Whether gradients flow to it.
    #[must_use]
    pub fn requires_grad(&self) -> bool {
        self.history.borrow().is_some()
    }

    /// As what views are taken of.
    pub(super) fn as_base(&self) -> Base {
        Base { history: Rc::clone(&self.history), meta: self.tensor.shared_meta(), offset: self.tensor.offset() }
    }

    /// Lets go of the tensor; nodes that nothing else holds are left for the caller to drop.
    pub(super) fn dismantle(self, pending: &mut Vec<Edge>) {
        for history in [Some(self.history), self.base.map(|b| b.history)].into_iter().flatten() {
            pending.extend(Rc::into_inner(history).and_then(RefCell::into_inner));
        }
    }

    pub(super) fn edge(&self) -> Option<Edge> {
        self.history.borrow().clone()
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
        Variable::with_edge(self.leaf.tensor.clone(), Some(Edge::to(Rc::clone(&self.accumulate), 0)))
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
