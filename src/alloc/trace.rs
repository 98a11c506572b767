//! Reading traces: `op,id,bytes` lines of `alloc`, `free`, `empty_cache` and `probe`. A trace in memory is sound: what it frees was
//! allocated before, and ids are already slots, dense and reused, so that a replay looks nothing up.

use std::collections::HashMap;
use std::io::Read;

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
    #[error("line {line}: expected the header `op,id,bytes`, found `{found}`")]
    Header { line: u64, found: String },
    #[error("line {line}: `{op}` is no operation; there are alloc, free, empty_cache and probe")]
    UnknownOp { line: u64, op: String },
    #[error("line {line}: `{op}` needs {needs}, found `{found}`")]
    Field { line: u64, op: &'static str, needs: &'static str, found: String },
    #[error("line {line}: {id} is allocated already, on line {since}")]
    AllocatedTwice { line: u64, id: u64, since: u64 },
    #[error("line {line}: {id} is freed but not allocated")]
    NotAllocated { line: u64, id: u64 },
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn read(text: impl Read) -> Result<Self, TraceError> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
        let mut record = csv::StringRecord::new();
        if !reader.read_record(&mut record)? || record != ["op", "id", "bytes"][..] {
            return Err(TraceError::Header { line: 1, found: record.iter().collect::<Vec<_>>().join(",") });
        }
        let mut ops = Vec::new();
        // Of every live id, its slot and the line it was allocated on.
        let mut live: HashMap<u64, (u32, u64)> = HashMap::new();
        let mut slots = 0;
        let mut vacant = Vec::new();
        while reader.read_record(&mut record)? {
            let line = record.position().map_or(0, csv::Position::line);
            let field = |at: usize, op, needs| {
                let found = record.get(at).unwrap_or("");
                found.parse::<u64>().map_err(|_| TraceError::Field { line, op, needs, found: found.to_owned() })
            };
            ops.push(match &record[0] {
                "alloc" => {
                    let (id, bytes) = (field(1, "alloc", "an id")?, field(2, "alloc", "a number of bytes")?);
                    let slot = vacant.pop().unwrap_or_else(|| {
                        slots += 1;
                        slots - 1
                    });
                    if let Some((_, since)) = live.insert(id, (slot, line)) {
                        return Err(TraceError::AllocatedTwice { line, id, since });
                    }
                    Op::Alloc { slot, bytes }
                }
                "free" => {
                    let id = field(1, "free", "an id")?;
                    let (slot, _) = live.remove(&id).ok_or(TraceError::NotAllocated { line, id })?;
                    vacant.push(slot);
                    Op::Free { slot }
                }
                "empty_cache" => Op::EmptyCache,
                "probe" => Op::Probe,
                op => return Err(TraceError::UnknownOp { line, op: op.to_owned() }),
            });
        }
        Ok(Self { ops, slots: slots as usize })
    }
}
