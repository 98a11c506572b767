//! How batches get to a device: where a GPU computes, by way of page-locked memory, and ahead of the step that needs them on a stream of
//! their own. On the host a copy is a copy.
//!
//! Invariant: the device's work sees batches whole, whatever was copied when: [`room_is_taken`](Uploads::room_is_taken) comes between the
//! allocation and the copy ahead, [`arrive`](Uploads::arrive) between the copy and the work.

use super::Exec;
use super::transfer::{Elements, Staged};
use crate::device::Device;
use crate::device::cuda::{Chunk, CopyStream, Staging};
use crate::tensor::Tensor;

/// The way.
#[derive(Debug)]
pub struct Uploads {
    /// Where bytes go through page-locked memory.
    staging: Option<Staging>,
    /// What copies ahead, where that goes on by itself.
    ahead: Option<CopyStream>,
    /// The program's own memory for batches that nobody writes now.
    spare: Vec<Vec<Vec<Room>>>,
}

/// Memory that a piece of a batch is written into before it is uploaded.
#[derive(Debug)]
pub struct Room(Kind);

#[derive(Debug)]
enum Kind {
    Own(Vec<u8>),
    Pinned(Chunk),
}

impl AsMut<[u8]> for Room {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Own(bytes) => bytes,
            Kind::Pinned(chunk) => chunk.as_mut(),
        }
    }
}

impl Room {
    /// The program's own memory; empty where this is not.
    fn own(&self) -> &[u8] {
        match &self.0 {
            Kind::Own(bytes) => bytes,
            Kind::Pinned(_) => &[],
        }
    }

    /// The page-locked memory, where it is any.
    fn pinned(self) -> Option<Chunk> {
        match self.0 {
            Kind::Own(_) => None,
            Kind::Pinned(chunk) => Some(chunk),
        }
    }
}

/// When a batch is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// By the work that is asked for next.
    Now,
    /// After the work that is under way.
    Later,
}

impl Exec {
    /// A way for batches: through page-locked memory where `pinned`, with a stream of its own where some are copied `ahead`.
    #[must_use]
    pub fn uploads(&self, pinned: bool, ahead: bool) -> Uploads {
        let (staging, ahead) = match self.device() {
            Device::Cuda(gpu) => (pinned.then(|| gpu.staging()), ahead.then(|| gpu.copy_stream())),
            Device::Host(_) | Device::Virtual => (None, None),
        };
        Uploads { staging, ahead, spare: Vec::new() }
    }
}

impl Uploads {
    /// Memory for a batch that is needed later was taken from the allocator: whatever used it before has been asked for by now.
    pub fn room_is_taken(&self) {
        if let Some(stream) = &self.ahead {
            stream.after_computing();
        }
    }

    /// Memory to write a batch into: for each of its parts, pieces of these sizes in bytes, which every call says alike.
    pub fn room(&mut self, sizes: &[Vec<usize>]) -> Vec<Vec<Room>> {
        if let Some(lot) = self.staging.as_mut().and_then(|staging| staging.lot(sizes)) {
            return lot.into_iter().map(|pieces| pieces.into_iter().map(|chunk| Room(Kind::Pinned(chunk))).collect()).collect();
        }
        let own = |&bytes: &usize| Room(Kind::Own(vec![0; bytes]));
        self.spare.pop().unwrap_or_else(|| sizes.iter().map(|pieces| pieces.iter().map(own).collect()).collect())
    }

    /// Overwrites contiguous tensors with elements as they are stored, piece after piece. The memory is given out again once it was read.
    pub fn upload(&mut self, exec: &Exec, parts: Vec<(Vec<Room>, &Tensor)>, needed: Needed) {
        let beside = self.ahead.as_ref().filter(|_| needed == Needed::Later);
        if let Some(staging) = &mut self.staging {
            // After a failure some are the program's own: nothing is copied any more.
            let pinned = |(pieces, to): (Vec<Room>, &Tensor)| (to.operand().address, pieces.into_iter().filter_map(Room::pinned).collect());
            staging.upload(parts.into_iter().map(pinned).collect(), beside);
            return;
        }
        for (pieces, to) in &parts {
            exec.on_host(|host| match &pieces[..] {
                [whole] => host.upload(to.operand(), whole.own()),
                pieces => host.upload(to.operand(), &pieces.iter().map(Room::own).collect::<Vec<_>>().concat()),
            });
            exec.on_cuda(|gpu| {
                let mut address = to.operand().address;
                for bytes in pieces.iter().map(Room::own) {
                    match beside {
                        Some(beside) => beside.upload(address, bytes),
                        None => gpu.upload(address, bytes),
                    }
                    address += bytes.len() as u64;
                }
            });
        }
        self.spare.push(parts.into_iter().map(|(pieces, _)| pieces).collect());
    }

    /// Overwrites a contiguous tensor with staged elements, without waiting.
    pub fn upload_staged(&self, exec: &Exec, elements: &Staged, to: &Tensor, needed: Needed) {
        let beside = self.ahead.as_ref().filter(|_| needed == Needed::Later);
        match &elements.0 {
            Elements::Own(elements) => exec.on_host(|host| host.upload(to.operand(), elements.bytes())),
            Elements::Pinned(elements) => exec.on_cuda(|gpu| gpu.upload_pinned(to.operand().address, elements, beside)),
        }
    }

    /// What was copied ahead is needed by the work that is asked for from now on.
    pub fn arrive(&self) {
        if let Some(stream) = &self.ahead {
            stream.before_computing();
        }
    }
}
