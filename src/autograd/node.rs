//! Nodes of the graph. A graph may be as long as a program runs, so it is dropped by a loop, not by recursion.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::saved::SavedVariable;
use super::variable::Leaf;
use crate::exec::Stream;
use crate::meta::TensorMeta;
use crate::ops::Operator;
use crate::record::{About, Pass, Running};
use crate::tensor::Tensor;

/// Where the gradient of a variable goes: a node, and which of its outputs the variable was.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) node: Rc<Node>,
    pub(super) output: u32,
}

impl Edge {
    pub(super) const fn to(node: Rc<Node>, output: u32) -> Self {
        Self { node, output }
    }
}

/// An operator that ran, and what its backward needs.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) op: Operator,
    /// Emptied once backward has run.
    pub(super) saved: RefCell<Vec<SavedVariable>>,
    /// Shape and type of each input.
    pub(super) inputs: Vec<Rc<TensorMeta>>,
    /// Which inputs need a gradient.
    pub(super) needs: Vec<bool>,
    /// The random numbers that it drew from, where backward draws them again.
    pub(super) stream: Option<Stream>,
}

/// A view of a base.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Shape and type of the base.
    pub(super) base: Rc<TensorMeta>,
    /// Shape, type and strides of the view.
    pub(super) view: Rc<TensorMeta>,
    /// How far behind the base's beginning the view begins, in elements.
    pub(super) offset: u64,
}

/// What a node does with gradients.
#[derive(Debug)]
pub(super) enum Function {
    /// The backward pass of an operator.
    Operator(Ran),
    /// The backward pass of an operator that wrote through a view.
    CopySlices(Ran, Part),
    /// A view of a tensor of this shape.
    View(Rc<TensorMeta>),
    /// A view of a base that was written through a view.
    AsStrided(Part),
    /// Adds to the gradient of a leaf.
    Accumulate(Rc<Leaf>),
}

/// An operator that ran, or a leaf.
#[derive(Debug)]
pub(super) struct Node {
    /// Order of creation. Leaves come first in backward: they have the highest.
    pub(super) sequence: u64,
    pub(super) function: Function,
    /// What ran when it was made.
    pub(super) running: Running,
    /// One an input; `None` where it needs no gradient.
    pub(super) edges: Vec<Option<Edge>>,
    pub(super) waiting: Waiting,
}

/// A node's part in the backward pass under way.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Sums of what has arrived, one an output.
    pub(super) grads: RefCell<Vec<Option<Tensor>>>,
    /// How many consumers have not run yet.
    pub(super) consumers: Cell<usize>,
    /// The last backward pass that reached this node.
    pub(super) reached_by: Cell<u64>,
}

impl Node {
    pub(super) fn new(sequence: u64, function: Function, running: Running, edges: Vec<Option<Edge>>, outputs: usize) -> Self {
        let waiting = Waiting { grads: RefCell::new(vec![None; outputs]), ..Waiting::default() };
        Self { sequence, function, running, edges, waiting }
    }

    pub(super) fn accumulating(leaf: Rc<Leaf>) -> Self {
        let about = About::At(leaf.tensor.operand().address);
        let running = Running { about, pass: Pass::Backward, ..Running::outside("accumulate_grad") };
        Self::new(u64::MAX, Function::Accumulate(leaf), running, Vec::new(), 1)
    }

    /// Takes out everything that may be the last to hold another node.
    fn dismantle(&mut self, pending: &mut Vec<Edge>) {
        pending.extend(self.edges.drain(..).flatten());
        if let Function::Operator(ran) | Function::CopySlices(ran, _) = &mut self.function {
            ran.saved.get_mut().drain(..).for_each(|saved| saved.dismantle(pending));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut pending = Vec::new();
        self.dismantle(&mut pending);
        while let Some(edge) = pending.pop() {
            if let Some(mut node) = Rc::into_inner(edge.node) {
                node.dismantle(&mut pending);
            }
        }
    }
}
