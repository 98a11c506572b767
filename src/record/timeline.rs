//! Memory from event to event, as pictures draw it: what was allocated where, and which stretches of address space were reserved.
//! Wherever it comes from, a run, a trace or a snapshot, it reads the same.

use super::Category;

/// A history of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// What moments refer to by number.
    pub names: Vec<String>,
    /// In order.
    pub moments: Vec<Moment>,
    /// Whether stretches that touch are one: pages of segments that expand.
    pub mapped: bool,
    /// Stretches of time with a name: the first moment of each. One whose name is empty is no stretch, but the end of that before.
    pub phases: Vec<(usize, String)>,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// What.
    pub change: Change,
    /// Where; nowhere in particular for `Oom`.
    pub address: u64,
    /// Bytes of the block or stretch, or of the request that failed.
    pub bytes: u64,
    /// What it is, by number.
    pub name: u32,
    /// The role it plays, where that is known.
    pub category: Option<Category>,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A block came into use.
    Alloc,
    /// The block at the address went out of use.
    Free,
    /// The block at the address has another name or role from now on.
    Becomes,
    /// A stretch was reserved.
    Reserve,
    /// A stretch was given back.
    Release,
    /// A request failed.
    Oom,
}
