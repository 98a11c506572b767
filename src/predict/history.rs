//! Histories: what a kept input knows of the node that last wrote it. An operator keeps its input as a tensor object, and an operator in
//! place changes that object's history. Where the new history leads back to the keeper, the graph holds itself and never dies, unless
//! backward runs and the keeper lets go: PyTorch leaks it so too.
//!
//! Views share their base's history here, as writing through one changes them all. Only storages that are written in place have any.

use super::graph::NodeId;

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
    histories: Vec<History>,
    vacant: Vec<HistoryId>,
    serial: u64,
}

/// A history as a scope remembers it, without holding it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remembered {
    id: HistoryId,
    serial: u64,
}

impl Histories {
    /// A history with one holder, which takes over the caller's hold on the node.
    pub(super) fn add(&mut self, node: NodeId) -> Remembered {
        self.serial += 1;
        let history = History { node, holders: 1, serial: self.serial };
        let id = if let Some(id) = self.vacant.pop() {
            self.histories[id as usize] = history;
            id
        } else {
            self.histories.push(history);
            HistoryId::try_from(self.histories.len() - 1).expect("fewer histories than 2^32 are alive at once")
        };
        Remembered { id, serial: self.serial }
    }

    /// The history, if somebody still holds it.
    pub(super) fn alive(&self, remembered: Remembered) -> Option<HistoryId> {
        let history = &self.histories[remembered.id as usize];
        (history.serial == remembered.serial && history.holders > 0).then_some(remembered.id)
    }

    /// One more holder.
    pub(super) fn hold(&mut self, id: HistoryId) -> HistoryId {
        self.histories[id as usize].holders += 1;
        id
    }

    /// One holder fewer; what the last one leaves to release.
    pub(super) fn release(&mut self, id: HistoryId) -> Option<NodeId> {
        let history = &mut self.histories[id as usize];
        history.holders -= 1;
        (history.holders == 0).then(|| {
            self.vacant.push(id);
            self.histories[id as usize].node
        })
    }

    /// The tensor was written by another node, whose hold it takes over; gives the old one back for release.
    pub(super) fn rewrite(&mut self, id: HistoryId, node: NodeId) -> NodeId {
        std::mem::replace(&mut self.histories[id as usize].node, node)
    }
}
impl Remembered {
    /// Its number.
    pub(super) const fn id(self) -> HistoryId {
        self.id
    }
}
