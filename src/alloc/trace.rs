//! Reading traces: `op,id,bytes` lines of `alloc`, `free`, `empty_cache` and `probe`. A trace in memory is sound: what it frees was
//! allocated before, and ids are already slots, dense and reused, so that a replay looks nothing up.

use std::collections::HashMap;

use crate::meta::plain;

/// The first line of every trace.
pub const TRACE_HEADER: &str = "op,id,bytes";

/// A sequence of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What to do, in order.
    pub ops: Vec<Op>,
    /// Slots that are in use at once, at most.
    pub slots: usize,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Put a block of `bytes` in an empty slot.
    Alloc {
        /// Which slot.
        slot: u32,
        /// How much to ask for.
        bytes: u64,
    },
    /// Give back the slot's block, if it could be had.
    Free {
        /// Which slot.
        slot: u32,
    },
    /// Give back what is cached.
    EmptyCache,
    /// Read the statistics.
    Probe,
}

/// What is wrong with a trace, and on which line of its file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum TraceError {
    #[error("line 1: expected the header `op,id,bytes`, found `{}`", plain(found))]
    Header { found: String },
    #[error("line {line}: `{}` is no operation; there are alloc, free, empty_cache and probe", plain(op))]
    UnknownOp { line: u64, op: String },
    #[error("line {line}: `{op}` needs {needs}, found `{}`", plain(found))]
    Field { line: u64, op: String, needs: &'static str, found: String },
    #[error("line {line}: {id} is allocated already, on line {since}")]
    AllocatedTwice { line: u64, id: u64, since: u64 },
    #[error("line {line}: {id} is freed but not allocated")]
    NotAllocated { line: u64, id: u64 },
}

impl Trace {
    /// Reads a trace from a file's text.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut lines = (1..).zip(text.lines());
        match lines.next() {
            Some((_, TRACE_HEADER)) => {}
            other => return Err(TraceError::Header { found: other.map_or("", |(_, found)| found).to_owned() }),
        }
        let mut ops = Vec::new();
        // Of every live id, its slot and the line it was allocated on.
        let mut live: HashMap<u64, (u32, u64)> = HashMap::new();
        let mut slots = Slots::default();
        for (line, text) in lines {
            let mut fields = text.split(',');
            let op = fields.next().unwrap_or("");
            let mut number = |needs| {
                let found = fields.next().unwrap_or("");
                found.parse::<u64>().map_err(|_| TraceError::Field { line, op: op.to_owned(), needs, found: found.to_owned() })
            };
            ops.push(match op {
                "alloc" => {
                    let (id, bytes) = (number("an id")?, number("a number of bytes")?);
                    let slot = slots.take();
                    if let Some((_, since)) = live.insert(id, (slot, line)) {
                        return Err(TraceError::AllocatedTwice { line, id, since });
                    }
                    Op::Alloc { slot, bytes }
                }
                "free" => {
                    let id = number("an id")?;
                    let (slot, _) = live.remove(&id).ok_or(TraceError::NotAllocated { line, id })?;
                    slots.give(slot);
                    Op::Free { slot }
                }
                "empty_cache" => Op::EmptyCache,
                "probe" => Op::Probe,
                op => return Err(TraceError::UnknownOp { line, op: op.to_owned() }),
            });
        }
        Ok(Self { ops, slots: slots.most() })
    }
}

/// Slots, the last given back the first to be taken again.
#[derive(Debug, Default)]
pub(super) struct Slots {
    most: u32,
    vacant: Vec<u32>,
}

impl Slots {
    pub(super) fn take(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.most = self.most.checked_add(1).expect("fewer than 2^32 blocks exist at once");
            self.most - 1
        })
    }

    pub(super) fn give(&mut self, slot: u32) {
        self.vacant.push(slot);
    }

    /// How many are in use at once, at most.
    pub(super) fn most(&self) -> usize {
        self.most as usize
    }
}
