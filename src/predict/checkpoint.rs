//! Checkpointed regions as backward sees them: what a region's frame holds (its argument), how many tensors the region packed, and
//! those of them that were recomputed and not yet taken.
//!
//! PyTorch's rules (`torch/utils/checkpoint.py`, non-reentrant): inside a region nothing is kept but placeholders; a nested region
//! packs its argument with the region around it, behind a tensor of no elements. The first placeholder that backward opens reruns
//! the region up to its last pack.
//!
//! Invariant: a frame dies with its last placeholder, and its argument with it. A recomputed tensor is held for a living placeholder only.

use super::history::{HistoryId, NO_HISTORY};
use super::slab::Slab;
use super::storage::{Id, NONE, Storages};

/// A frame, by number.
pub(super) type FrameId = u32;

/// Where a region's argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// In a storage that the frame holds, with the tensor's history where it has one.
    Storage(Id, HistoryId),
    /// Packed with the region around, as its n-th tensor.
    Packed(FrameId, u32),
}

/// One passage through a region.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) region: u32,
    pub(super) argument: Argument,
    /// Of each tensor packed, whether its placeholder lives.
    pub(super) placeholders: Vec<bool>,
    pub(super) is_recomputed: bool,
    /// Recomputed and not yet taken, by the order of packing.
    pub(super) recomputed: Vec<Id>,
    holders: u32,
}

/// All frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    frames: Slab<Frame>,
}

impl Frames {
    /// A frame that the running region holds.
    pub(super) fn add(&mut self, region: u32, argument: Argument) -> FrameId {
        let frame = Frame { region, argument, placeholders: Vec::new(), is_recomputed: false, recomputed: Vec::new(), holders: 1 };
        self.frames.insert(frame)
    }

    /// A frame, and how many hold it.
    pub(super) fn look(&self, id: FrameId) -> (&Frame, u32) {
        let frame = &self.frames[id];
        (frame, frame.holders)
    }

    pub(super) fn get(&mut self, id: FrameId) -> &mut Frame {
        &mut self.frames[id]
    }

    /// The region packs another tensor, whose placeholder holds the frame. Returns its number.
    pub(super) fn pack(&mut self, id: FrameId) -> u32 {
        let frame = self.get(id);
        frame.placeholders.push(true);
        frame.holders += 1;
        u32::try_from(frame.placeholders.len() - 1).expect("regions pack far fewer tensors")
    }

    /// A tensor without memory is packed and nobody will ask for it.
    pub(super) fn pack_nothing(&mut self, id: FrameId) {
        self.get(id).placeholders.push(false);
    }

    /// A placeholder is gone. Whoever calls releases the history that comes back.
    pub(super) fn release_packed(&mut self, id: FrameId, packed: u32, storages: &mut Storages<'_>) -> Option<HistoryId> {
        self.get(id).placeholders[packed as usize] = false;
        self.release(id, storages)
    }

    /// A placeholder is gone, or the region has ended. Whoever calls releases the history that comes back.
    pub(super) fn release(&mut self, mut id: FrameId, storages: &mut Storages<'_>) -> Option<HistoryId> {
        loop {
            let frame = &mut self.frames[id];
            frame.holders -= 1;
            if frame.holders > 0 {
                return None;
            }
            for storage in frame.recomputed.drain(..).filter(|&s| s != NONE) {
                storages.release(storage);
            }
            self.frames.vacate(id);
            match self.frames[id].argument {
                Argument::Storage(storage, history) => {
                    storages.release(storage);
                    return (history != NO_HISTORY).then_some(history);
                }
                Argument::Packed(around, packed) => {
                    self.get(around).placeholders[packed as usize] = false;
                    id = around;
                }
            }
        }
    }

    /// Backward opens a placeholder of a region that was recomputed: whoever takes the storage holds it.
    pub(super) fn take(&mut self, id: FrameId, packed: u32) -> Id {
        std::mem::replace(&mut self.get(id).recomputed[packed as usize], NONE)
    }
}
