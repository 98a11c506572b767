//! Histories: what a kept input knows of the node that last wrote it. An operator keeps its input as a tensor object, and an operator in
//! place changes that object's history. Where the new history leads back to the keeper, the graph holds itself and never dies, unless
//! backward runs and the keeper lets go: PyTorch leaks it so too.
//!
//! Views share their base's history here, as writing through one changes them all. Only storages that are written in place have any.

use super::graph::NodeId;
use super::slab::Slab;

/// A history, by number.
pub(super) type HistoryId = u32;
/// None: of a tensor that nothing writes into.
pub(super) const NO_HISTORY: HistoryId = HistoryId::MAX;

#[derive(Debug)]
struct History {
    node: NodeId,
    holders: u32,
    /// Tells one history from another that has its number later.
    serial: u64,
}

/// All histories.
#[derive(Debug, Default)]
pub(super) struct Histories {
    histories: Slab<History>,
    serial: u64,
}

/// A history as a scope remembers it, without holding it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remembered {
    id: HistoryId,
    serial: u64,
}

impl Remembered {
    /// Its number.
    pub(super) const fn id(self) -> HistoryId {
        self.id
    }
}

impl Histories {
    /// A history with one holder, which takes over the caller's hold on the node.
    pub(super) fn add(&mut self, node: NodeId) -> Remembered {
        self.serial += 1;
        let history = History { node, holders: 1, serial: self.serial };
        Remembered { id: self.histories.insert(history), serial: self.serial }
    }

    /// The history, if somebody still holds it.
    pub(super) fn alive(&self, remembered: Remembered) -> Option<HistoryId> {
        let history = &self.histories[remembered.id];
        (history.serial == remembered.serial && history.holders > 0).then_some(remembered.id)
    }

    /// The node of a history, and how many hold it.
    pub(super) fn look(&self, id: HistoryId) -> (NodeId, u32) {
        let history = &self.histories[id];
        (history.node, history.holders)
    }

    /// One more holder.
    pub(super) fn hold(&mut self, id: HistoryId) -> HistoryId {
        self.histories[id].holders += 1;
        id
    }

    /// One holder fewer; what the last one leaves to release.
    pub(super) fn release(&mut self, id: HistoryId) -> Option<NodeId> {
        let history = &mut self.histories[id];
        history.holders -= 1;
        (history.holders == 0).then(|| {
            self.histories.vacate(id);
            self.histories[id].node
        })
    }

    /// The tensor was written by another node, whose hold it takes over; gives the old one back for release.
    pub(super) fn rewrite(&mut self, id: HistoryId, node: NodeId) -> NodeId {
        std::mem::replace(&mut self.histories[id].node, node)
    }
}
