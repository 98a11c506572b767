//! What autograd holds: nodes that hold what was kept for backward and the nodes that made their inputs, and gradients on their way.
//! A tensor holds the node that made it, so whoever keeps an output alive keeps its whole graph.
//!
//! Invariant: a node dies when neither a tensor nor a later node holds it; what it kept dies with it, unless backward came first.

use super::checkpoint::{FrameId, Frames};
use super::history::{Histories, HistoryId};
use super::program::{Layout, OpId};
use super::scope::Variable;
use super::slab::Slab;
use super::storage::{Id, Storages};

/// A node, by number.
pub(super) type NodeId = u32;
/// No node: a tensor that requires no gradient, or a leaf.
pub(super) const NO_NODE: NodeId = NodeId::MAX;

/// Where the gradient of an input goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// Nowhere.
    None,
    /// To a parameter, by its number in the state.
    Leaf(u32),
    /// To an output of a node.
    Node(NodeId, u32),
}

/// What a node keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// A storage that it holds.
    Storage(Id),
    /// The same, and the history of the tensor that it kept, which something writes into.
    Written(Id, HistoryId),
    /// The n-th tensor that a checkpointed region packed: held by nobody until it is recomputed.
    Packed(FrameId, u32),
}

/// What a node does in backward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its operator's formulas.
    Operator,
    /// The same, for an operator that made a view.
    View,
    /// Gives the gradient of an operator's output the shape of what the operator made.
    Made(Layout),
    /// Gives the gradient of an operator's n-th input, which it sees through a view, the shape that the input has outside.
    Seen(usize),
    /// Its operator's formulas for a part of a gradient: the operator wrote into a view of a base that lies so (`CopySlices`).
    OnView(Layout),
    /// Puts the gradient of a view that was written into in the place of its base, which lies so (`AsStrided`).
    Strided(Layout),
}

/// A gradient: a tensor of its own in a storage that it holds.
#[derive(Debug, Clone)]
pub(super) struct Gradient {
    pub(super) storage: Id,
    pub(super) layout: Layout,
    /// A view holds the tensor that it is a view of, so nobody ever is alone with it.
    pub(super) is_view: bool,
}

impl Gradient {
    /// A tensor that is no view.
    pub(super) fn new(storage: Id, layout: Layout) -> Self {
        Self { storage, layout, is_view: false }
    }

    /// A view.
    pub(super) fn view(storage: Id, layout: Layout) -> Self {
        Self { storage, layout, is_view: true }
    }
}

/// A node of the graph.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) op: OpId,
    pub(super) kind: Kind,
    /// Counts up over all nodes: tells one node from another that has its number later.
    pub(super) sequence: u64,
    holders: u32,
    pub(super) edges: Vec<Edge>,
    pub(super) kept: Vec<Kept>,
    /// Gradients that have come in, one an output.
    pub(super) incoming: Vec<Option<Gradient>>,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Slab<Node>,
    sequence: u64,
    pub(super) histories: Histories,
    /// The nodes of the micro-step under way, in order.
    pub(super) tape: Vec<(NodeId, u64)>,
    /// Nodes that nobody holds any more, on their way out.
    dying: Vec<NodeId>,
}

impl Graph {
    /// A node that nobody holds yet, for an operator with that many outputs. Edges and kept tensors are the caller's to add.
    pub(super) fn add(&mut self, op: OpId, kind: Kind, outputs: usize) -> NodeId {
        self.sequence += 1;
        // A node that died leaves empty lists, which have room already.
        let id = self.nodes.reuse_or(|| Node {
            op,
            kind: Kind::Operator,
            sequence: 0,
            holders: 0,
            edges: Vec::new(),
            kept: Vec::new(),
            incoming: Vec::new(),
        });
        let node = &mut self.nodes[id];
        node.op = op;
        node.kind = kind;
        node.sequence = self.sequence;
        node.incoming.resize_with(outputs, || None);
        self.tape.push((id, self.sequence));
        id
    }

    /// The node of a sum outside all programs, whose gradient nobody asks for: it only holds what it adds.
    pub(super) fn join(&mut self, terms: [Variable; 2]) -> NodeId {
        let id = self.add(OpId::MAX, Kind::Operator, 1);
        for term in terms.into_iter().filter(|t| t.node != NO_NODE) {
            self.connect(id, Edge::Node(term.node, term.output));
        }
        self.hold(id)
    }

    /// A node, and how many hold it.
    pub(super) fn look(&self, id: NodeId) -> (&Node, u32) {
        let node = &self.nodes[id];
        (node, node.holders)
    }

    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    /// Takes away all gradients that have come in anywhere.
    pub(super) fn take_incoming(&mut self) -> Vec<Gradient> {
        self.nodes.iter_mut().flat_map(|node| node.incoming.iter_mut().filter_map(Option::take)).collect()
    }

    /// One more holder, if there is a node.
    pub(super) fn hold(&mut self, id: NodeId) -> NodeId {
        if id != NO_NODE {
            self.nodes[id].holders += 1;
        }
        id
    }

    /// An edge from a node to the tensor that `id` made, which the node holds from now on.
    pub(super) fn connect(&mut self, from: NodeId, edge: Edge) {
        if let Edge::Node(to, _) = edge {
            self.hold(to);
        }
        self.nodes[from].edges.push(edge);
    }

    /// Where the gradient of a view's base goes: behind the nodes that only made views of it.
    pub(super) fn base_of(&self, mut edge: Edge) -> Edge {
        while let Edge::Node(id, _) = edge
            && let Node { kind: Kind::View | Kind::Made(_) | Kind::Strided(_), edges, .. } = &self.nodes[id]
        {
            edge = edges[0];
        }
        edge
    }

    /// One holder fewer. Where it was the last, the node dies, and so does whatever only it held.
    pub(super) fn release(&mut self, id: NodeId, storages: &mut Storages<'_>, frames: &mut Frames) {
        if id == NO_NODE || !self.loses_last_holder(id) {
            return;
        }
        self.dying.push(id);
        self.bury(storages, frames);
    }

    /// A history is held once less.
    pub(super) fn release_history(&mut self, id: HistoryId, storages: &mut Storages<'_>, frames: &mut Frames) {
        self.history_loses(id);
        self.bury(storages, frames);
    }

    fn history_loses(&mut self, id: HistoryId) {
        if let Some(node) = self.histories.release(id)
            && node != NO_NODE
            && self.loses_last_holder(node)
        {
            self.dying.push(node);
        }
    }

    /// Nodes on their way out take along what only they held.
    fn bury(&mut self, storages: &mut Storages<'_>, frames: &mut Frames) {
        while let Some(id) = self.dying.pop() {
            self.let_go(id, storages, frames);
            let mut edges = std::mem::take(&mut self.nodes[id].edges);
            for edge in edges.drain(..) {
                if let Edge::Node(to, _) = edge
                    && self.loses_last_holder(to)
                {
                    self.dying.push(to);
                }
            }
            self.nodes[id].edges = edges;
            self.nodes[id].incoming.clear();
            self.nodes.vacate(id);
        }
    }

    fn loses_last_holder(&mut self, id: NodeId) -> bool {
        let node = &mut self.nodes[id];
        node.holders -= 1;
        node.holders == 0
    }

    /// A node lets go of what it kept for backward.
    pub(super) fn release_kept(&mut self, id: NodeId, storages: &mut Storages<'_>, frames: &mut Frames) {
        self.let_go(id, storages, frames);
        self.bury(storages, frames);
    }

    fn let_go(&mut self, id: NodeId, storages: &mut Storages<'_>, frames: &mut Frames) {
        let mut kept = std::mem::take(&mut self.nodes[id].kept);
        for k in kept.drain(..) {
            match k {
                Kept::Storage(storage) => storages.release(storage),
                Kept::Written(storage, history) => {
                    storages.release(storage);
                    self.history_loses(history);
                }
                Kept::Packed(frame, packed) => {
                    if let Some(history) = frames.release_packed(frame, packed, storages) {
                        self.history_loses(history);
                    }
                }
            }
        }
        self.nodes[id].kept = kept;
    }
}
