//! Reading logs of RMM's `logging_resource_adaptor`: `Thread,Time,Action,Pointer,Size,Stream`, an `allocate`, `free` or `allocate failure`
//! a line. Threads and times mean nothing to a replay; streams are counted, since PyTorch keeps a cache for each and this replays one.

use std::collections::{BTreeSet, HashMap};

use super::trace::{Op, Slots, Trace};
use crate::meta::plain;

/// The first line of every such log.
pub const RMM_HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// A log as a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RmmLog {
    /// What was asked for. What failed is asked for again; where it can be had, it comes and goes.
    pub trace: Trace,
    /// Of each operation its line.
    pub lines: Vec<u32>,
    /// Streams that took part.
    pub streams: usize,
}

/// What is wrong with a log, and on which line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum RmmError {
    #[error("line 1: expected the header `{RMM_HEADER}`, found `{}`", plain(found))]
    Header { found: String },
    #[error("line {line}: expected six fields, found {found}")]
    Fields { line: usize, found: usize },
    #[error("line {line}: `{}` is no action; there are allocate, free and allocate failure", plain(found))]
    Action { line: usize, found: String },
    #[error("line {line}: `{}` is no {what}", plain(found))]
    Number { line: usize, what: &'static str, found: String },
    #[error("line {line}: {pointer:#x} is allocated already, on line {since}")]
    AllocatedTwice { line: usize, pointer: u64, since: usize },
    #[error("line {line}: {pointer:#x} is freed but not allocated")]
    NotAllocated { line: usize, pointer: u64 },
}

impl RmmLog {
    /// Reads a log from a file's text.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn parse(text: &str) -> Result<Self, RmmError> {
        let mut lines = (1..).zip(text.lines());
        match lines.next() {
            Some((_, header)) if header.trim_end() == RMM_HEADER => {}
            other => return Err(RmmError::Header { found: other.map_or("", |(_, found)| found).to_owned() }),
        }
        let mut ops = Vec::new();
        let mut places = Vec::new();
        let mut slots = Slots::default();
        let mut live: HashMap<u64, (u32, usize)> = HashMap::new();
        let mut streams: BTreeSet<&str> = BTreeSet::new();
        for (line, text) in lines {
            let mut fields = [""; 6];
            let mut found = 0;
            for field in text.trim_end().split(',') {
                if let Some(place) = fields.get_mut(found) {
                    *place = field.trim();
                }
                found += 1;
            }
            if found != fields.len() {
                return Err(RmmError::Fields { line, found });
            }
            let [_, _, action, pointer, size, stream] = fields;
            if !streams.contains(stream) {
                streams.insert(stream);
            }
            let bytes = || size.parse::<u64>().map_err(|_| RmmError::Number { line, what: "number of bytes", found: size.to_owned() });
            let mut push = |op| {
                ops.push(op);
                places.push(u32::try_from(line).unwrap_or(u32::MAX));
            };
            match action {
                "allocate" => {
                    let (pointer, bytes) = (address(pointer, line)?, bytes()?);
                    if bytes == 0 {
                        continue;
                    }
                    let slot = slots.take();
                    if let Some((_, since)) = live.insert(pointer, (slot, line)) {
                        return Err(RmmError::AllocatedTwice { line, pointer, since });
                    }
                    push(Op::Alloc { slot, bytes });
                }
                "free" => {
                    let pointer = address(pointer, line)?;
                    if bytes()? == 0 {
                        continue;
                    }
                    let (slot, _) = live.remove(&pointer).ok_or(RmmError::NotAllocated { line, pointer })?;
                    slots.give(slot);
                    push(Op::Free { slot });
                }
                "allocate failure" => {
                    let (slot, bytes) = (slots.take(), bytes()?);
                    push(Op::Alloc { slot, bytes });
                    push(Op::Free { slot });
                    slots.give(slot);
                }
                _ => return Err(RmmError::Action { line, found: action.to_owned() }),
            }
        }
        Ok(Self { trace: Trace { ops, slots: slots.most() }, lines: places, streams: streams.len() })
    }
}

/// `0x7f00…`, or `(nil)`.
fn address(text: &str, line: usize) -> Result<u64, RmmError> {
    let digits = if text == "(nil)" { Some("0") } else { text.strip_prefix("0x") };
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| RmmError::Number { line, what: "pointer", found: text.to_owned() })
}
