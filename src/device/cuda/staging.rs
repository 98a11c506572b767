//! Batches on their way to the GPU by way of page-locked memory: it is given out to be written, and while one batch is copied, others are
//! written.
//!
//! Asking the driver whether a copy is done takes as long as asking for the copy, so small batches are told of several at a time.
//!
//! Invariant: what was uploaded is given out again only when the GPU has read it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::Cuda;
use super::error::CudaError;
use super::event::{COMPUTING, Event};
use super::pinned::{Chunk, Memory};
use super::stream::CopyStream;

/// Batches of fewer bytes together are told of together.
const SMALL: usize = 256 << 10;
/// At most so many.
const MOST: usize = 8;
/// Rounds that may be on their way before somebody waits.
const ROUNDS: usize = 3;
/// Parts of a batch begin at multiples of this, in bytes.
const ALIGNMENT: usize = 256;

/// A batch's memory: for each part of it, pieces that lie one behind the other.
type Lot = Vec<Vec<Chunk>>;

/// The page-locked memory.
#[derive(Debug)]
pub struct Staging {
    spare: Vec<Lot>,
    /// Lots that were uploaded, and nobody was told yet.
    flying: Vec<Lot>,
    /// Where they were.
    stream: sys::CUstream,
    /// Those before, oldest first, each round with the event that tells when the GPU has read it.
    rounds: VecDeque<(Event, Vec<Lot>)>,
    /// All the memory there is, so that none is given back while somebody writes or reads it.
    memory: Vec<Arc<Memory>>,
    cuda: Rc<Cuda>,
}

impl Staging {
    /// Memory for a batch: for each of its parts, pieces of these sizes in bytes, which every call says alike. `None` after a failure,
    /// which the context remembers.
    pub fn lot(&mut self, sizes: &[Vec<usize>]) -> Option<Vec<Vec<Chunk>>> {
        if self.spare.is_empty() && self.rounds.len() >= ROUNDS {
            let (read, lots) = self.rounds.pop_front().expect("there are several");
            self.cuda.attempt(|| read.wait())?;
            self.spare = lots;
        }
        if self.spare.is_empty() {
            self.spare = self.new_lots(sizes)?;
        }
        self.spare.pop()
    }

    /// A round's worth of new memory.
    fn new_lots(&mut self, sizes: &[Vec<usize>]) -> Option<Vec<Lot>> {
        let part = |pieces: &Vec<usize>| pieces.iter().sum::<usize>().next_multiple_of(ALIGNMENT);
        let lot: usize = sizes.iter().map(part).sum();
        let count = round(lot);
        let memory = self.cuda.attempt(|| Memory::new(lot * count))?;
        let mut start = 0;
        let places = (0..count).flat_map(|_| sizes).flat_map(|pieces| {
            let mut at = start;
            start += part(pieces);
            pieces.iter().map(move |&bytes| {
                at += bytes;
                (at - bytes, bytes)
            })
        });
        let mut chunks = Chunk::split(memory, places).into_iter();
        self.memory.extend(chunks.as_slice().first().map(Chunk::memory));
        let lots = (0..count).map(|_| sizes.iter().map(|pieces| chunks.by_ref().take(pieces.len()).collect()).collect());
        Some(lots.collect())
    }

    /// Copies the parts of a batch to addresses on the GPU, in the background: on the stream that computes, or beside it.
    pub fn upload(&mut self, parts: Vec<(u64, Vec<Chunk>)>, beside: Option<&CopyStream>) {
        let stream = beside.map_or(COMPUTING, CopyStream::raw);
        if stream != self.stream {
            self.tell();
            self.stream = stream;
        }
        self.cuda.attempt(|| parts.iter().try_for_each(|(to, pieces)| put(*to, pieces, stream)));
        let bytes = parts.iter().flat_map(|(_, pieces)| pieces).map(Chunk::bytes).sum();
        self.flying.push(parts.into_iter().map(|(_, pieces)| pieces).collect());
        if self.flying.len() >= round(bytes) {
            self.tell();
        }
    }

    /// Has it told when the GPU has read what is on its way.
    fn tell(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let stream = self.stream;
        let told = self.cuda.attempt(|| {
            let read = Event::untimed()?;
            read.record(stream).map(|()| read)
        });
        // Where nobody tells, because of a failure, nobody has them any more.
        if let Some(read) = told {
            self.rounds.push_back((read, std::mem::take(&mut self.flying)));
        }
    }
}

/// How many batches of so many bytes are told of together.
fn round(bytes: usize) -> usize {
    (SMALL / bytes.max(1)).clamp(1, MOST)
}

/// Copies pieces that go on in each other in one go.
fn put(mut to: u64, pieces: &[Chunk], stream: sys::CUstream) -> Result<(), CudaError> {
    for run in pieces.chunk_by(Chunk::goes_on_in) {
        let bytes = run.iter().map(Chunk::bytes).sum();
        run[0].upload(bytes, to, stream)?;
        to += bytes as u64;
    }
    Ok(())
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = self.cuda.synchronize(); // a copy may still read; a failure is kept
    }
}

impl Cuda {
    /// Page-locked memory for batches, taken as it is needed.
    #[must_use]
    pub fn staging(self: &Rc<Self>) -> Staging {
        let (spare, flying, rounds, memory) = (Vec::new(), Vec::new(), VecDeque::new(), Vec::new());
        Staging { spare, flying, stream: COMPUTING, rounds, memory, cuda: Rc::clone(self) }
    }
}
