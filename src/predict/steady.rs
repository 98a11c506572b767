//! Whether a training has come to where it was: then it goes on as it did, and its steps need not be gone through again.
//!
//! What follows the end of a step depends on what is held then, by whom, and where it lies, and on nothing that happened before. A [`Portrait`]
//! says all of that: the blocks by address, and from every variable of the script and of the machine whatever it leads to. Numbers of
//! storages, nodes, frames and histories are names; they are told in the order in which the walk first comes to them. What nothing leads to
//! any more, nothing will ever touch: only its blocks count, and they are told.
//!
//! Invariant: two steps whose portraits are equal are followed by the same rows, as long as the steps that follow are the same.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::checkpoint::{Argument, FrameId};
use super::graph::{Edge, Kept, Kind, NO_NODE, NodeId};
use super::history::{HistoryId, NO_HISTORY};
use super::machine::Machine;
use super::scope::Variable;
use super::storage::{Id, NONE};

/// So many steps are looked at; what has not come round by then is gone through step by step.
const MOST: u64 = 64;

/// Looks for the first step whose end is as that of an earlier one.
#[derive(Debug)]
pub(super) struct Steady {
    /// The step that others are compared with, how many rows were written by its end, and how it ended.
    kept: Option<(u64, usize, Portrait)>,
    looked: u64,
}

/// A step that ended as an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Round {
    /// So many steps lie between.
    pub(super) steps: u64,
    /// Rows that were written by the end of the earlier one.
    pub(super) rows: usize,
}

impl Steady {
    pub(super) const fn new() -> Self {
        Self { kept: None, looked: 0 }
    }

    /// Whether it is still worth while to look.
    pub(super) const fn is_looking(&self) -> bool {
        self.looked < MOST
    }

    /// A step has ended so.
    pub(super) fn look(&mut self, step: u64, rows: usize, portrait: Portrait) -> Option<Round> {
        self.looked += 1;
        if let Some((earlier, rows, _)) = self.kept.as_ref().filter(|(_, _, kept)| *kept == portrait) {
            let round = Round { steps: step - earlier, rows: *rows };
            self.looked = MOST;
            return Some(round);
        }
        // Each power of two, so that it is soon one in the round, and long enough the same for any round to end (Brent).
        if self.looked.is_power_of_two() {
            self.kept = Some((step, rows, portrait));
        }
        None
    }
}

/// All that the steps to come depend on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Portrait {
    words: Vec<u64>,
    kinds: Vec<Kind>,
}

/// Says it.
pub(super) struct Painter<'m, 'l, 'g> {
    machine: &'m Machine<'l, 'g>,
    words: Vec<u64>,
    kinds: Vec<Kind>,
    storages: HashMap<Id, u64>,
    nodes: HashMap<NodeId, u64>,
    frames: HashMap<FrameId, u64>,
    histories: HashMap<HistoryId, u64>,
    /// What has been named and not yet said.
    next: Vec<Named>,
}

enum Named {
    Storage(Id),
    Node(NodeId),
    Frame(FrameId),
    History(HistoryId),
}

/// What is not there.
const NOTHING: u64 = u64::MAX;

impl<'m, 'l, 'g> Painter<'m, 'l, 'g> {
    /// Begins with the blocks and with what the machine holds; `None` where the allocator goes by more than where its blocks lie.
    pub(super) fn new(machine: &'m Machine<'l, 'g>) -> Option<Self> {
        let words = machine.storages.portrait()?;
        let mut painter = Self {
            machine,
            words,
            kinds: Vec::new(),
            storages: HashMap::new(),
            nodes: HashMap::new(),
            frames: HashMap::new(),
            histories: HashMap::new(),
            next: Vec::new(),
        };
        debug_assert!(machine.slots.is_empty() && machine.passing.is_empty(), "nothing runs between steps");
        painter.storages(&machine.state);
        painter.storages(&machine.gradients);
        machine.workspaces().iter().for_each(|of_thread| painter.storages(of_thread));
        Some(painter)
    }

    /// Variables that hold storages.
    pub(super) fn storages(&mut self, ids: &[Id]) {
        self.words.push(ids.len() as u64);
        ids.iter().for_each(|&id| self.storage(id));
    }

    /// A variable that holds a tensor with its graph.
    pub(super) fn variable(&mut self, Variable { storage, node, output }: Variable) {
        self.storage(storage);
        self.node(node);
        self.words.push(output.into());
    }

    /// Everything that these lead to.
    pub(super) fn finish(mut self) -> Portrait {
        while let Some(named) = self.next.pop() {
            match named {
                Named::Storage(id) => self.words.extend(self.machine.storages.look(id)),
                Named::Node(id) => self.say_node(id),
                Named::Frame(id) => self.say_frame(id),
                Named::History(id) => {
                    let (node, holders) = self.machine.graph.histories.look(id);
                    self.words.push(holders.into());
                    self.node(node);
                }
            }
        }
        Portrait { words: self.words, kinds: self.kinds }
    }

    fn storage(&mut self, id: Id) {
        let name = if id == NONE { NOTHING } else { named(&mut self.storages, id, &mut self.next, Named::Storage) };
        self.words.push(name);
    }

    fn node(&mut self, id: NodeId) {
        let name = if id == NO_NODE { NOTHING } else { named(&mut self.nodes, id, &mut self.next, Named::Node) };
        self.words.push(name);
    }

    fn frame(&mut self, id: FrameId) {
        let name = named(&mut self.frames, id, &mut self.next, Named::Frame);
        self.words.push(name);
    }

    fn history(&mut self, id: HistoryId) {
        let name = if id == NO_HISTORY { NOTHING } else { named(&mut self.histories, id, &mut self.next, Named::History) };
        self.words.push(name);
    }

    /// Lists go with their lengths, and each kind of thing with a number of its own, so that no two states read alike.
    fn say_node(&mut self, id: NodeId) {
        let (node, holders) = self.machine.graph.look(id);
        let lengths = [node.edges.len(), node.kept.len(), node.incoming.len()].map(|n| n as u64);
        self.words.extend([node.op.into(), holders.into()].into_iter().chain(lengths));
        self.kinds.push(node.kind.clone());
        for edge in &node.edges {
            match *edge {
                Edge::None => self.words.push(0),
                Edge::Leaf(parameter) => self.words.extend([1, parameter.into()]),
                Edge::Node(to, output) => {
                    self.words.extend([2, output.into()]);
                    self.node(to);
                }
            }
        }
        for kept in &node.kept {
            match *kept {
                Kept::Storage(storage) => {
                    self.words.push(0);
                    self.storage(storage);
                }
                Kept::Written(storage, history) => {
                    self.words.push(1);
                    self.storage(storage);
                    self.history(history);
                }
                Kept::Packed(frame, packed) => {
                    self.words.extend([2, packed.into()]);
                    self.frame(frame);
                }
            }
        }
        for gradient in &node.incoming {
            // Between steps none is on its way; how it would lie is not told.
            debug_assert!(gradient.is_none(), "backward has handed on every gradient");
            self.storage(gradient.as_ref().map_or(NONE, |gradient| gradient.storage));
        }
    }

    fn say_frame(&mut self, id: FrameId) {
        let (frame, holders) = self.machine.frames.look(id);
        let lengths = [frame.placeholders.len(), frame.recomputed.len()].map(|n| n as u64);
        self.words.extend([frame.region.into(), holders.into(), frame.is_recomputed.into()].into_iter().chain(lengths));
        match frame.argument {
            Argument::Storage(storage, history) => {
                self.words.push(0);
                self.storage(storage);
                self.history(history);
            }
            Argument::Packed(around, packed) => {
                self.words.extend([1, packed.into()]);
                self.frame(around);
            }
        }
        self.words.extend(frame.placeholders.iter().map(|&lives| u64::from(lives)));
        frame.recomputed.iter().for_each(|&storage| self.storage(storage));
    }
}

/// The name of something, which is said later where it is new.
fn named<K: Copy + Eq + std::hash::Hash>(known: &mut HashMap<K, u64>, id: K, next: &mut Vec<Named>, wrap: fn(K) -> Named) -> u64 {
    let name = known.len() as u64;
    match known.entry(id) {
        Entry::Occupied(entry) => *entry.get(),
        Entry::Vacant(entry) => {
            next.push(wrap(id));
            *entry.insert(name)
        }
    }
}
