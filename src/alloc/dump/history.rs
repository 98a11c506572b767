//! What a dump's history asks of an allocator: requests in order, ready to be replayed under any settings, and how memory lay before
//! the first of them, since a history may begin late or have lost its beginning.
//!
//! Invariant: a trace that comes out is sound: what it frees was allocated before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::types::{Dump, TraceAction, TraceEntry};
use crate::alloc::trace::{Op, Slots, Trace};

/// A device's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// What was asked for. Blocks from before the history come first, by address.
    pub trace: Trace,
    /// Of each operation the stack that it came from.
    pub stacks: Vec<Option<u32>>,
    /// Segments that were there before the first entry: address and bytes.
    pub segments_before: Vec<(u64, u64)>,
    /// Blocks that were in use before the first entry, by address.
    pub blocks_before: Vec<Before>,
    /// Streams that took part.
    pub streams: usize,
}

/// A block that was in use before a history began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// Where.
    pub address: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// The stack that it was allocated on, where the dump says so.
    pub stack: Option<u32>,
}

/// A history that cannot have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum HistoryError {
    #[error("the snapshot has the histories of {devices} devices; number {asked} is none of them")]
    Device { devices: usize, asked: usize },
    #[error("entry {entry} allocates at {address:#x}, which is in use")]
    Twice { entry: usize, address: u64 },
}

impl Dump {
    /// The devices that have a history or segments.
    #[must_use]
    pub fn devices(&self) -> Vec<usize> {
        let traced = self.traces.iter().enumerate().filter(|(_, t)| !t.is_empty()).map(|(d, _)| d);
        let devices: BTreeSet<usize> = traced.chain(self.segments.iter().map(|s| s.device as usize)).collect();
        devices.into_iter().collect()
    }

    /// The history of a device with `total` bytes of memory. A dump does not say when a program gave back its cache, only which segments
    /// went: they went for the sake of a request if one followed that memory had no room for.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn history(&self, device: usize, total: u64) -> Result<History, HistoryError> {
        let none = Vec::new();
        let entries = match self.traces.get(device) {
            Some(entries) => entries,
            None if self.segments.iter().any(|s| s.device as usize == device) => &none,
            None => return Err(HistoryError::Device { devices: self.traces.len(), asked: device }),
        };
        let (segments_before, blocks_before) = self.before(device, entries);
        let mut writer = Writer::default();
        for block in &blocks_before {
            writer.alloc(block.address, block.requested, block.stack);
        }
        let reserved = segments_before.iter().map(|(_, bytes)| bytes).sum();
        let emptied = self.emptied(entries, reserved, total);
        let mut emptied = emptied.iter().peekable();
        for (n, entry) in entries.iter().enumerate() {
            if emptied.next_if_eq(&&n).is_some() {
                writer.push(Op::EmptyCache, None);
            }
            match entry.action {
                TraceAction::Alloc => {
                    if writer.slots.contains_key(&entry.address) {
                        return Err(HistoryError::Twice { entry: n, address: entry.address });
                    }
                    writer.alloc(entry.address, entry.bytes, entry.stack);
                }
                TraceAction::FreeCompleted => writer.free(entry.address, entry.stack),
                // What failed then is asked for again; where it can be had, it comes and goes.
                TraceAction::Oom => {
                    writer.alloc(u64::MAX, entry.bytes, entry.stack);
                    writer.free(u64::MAX, entry.stack);
                }
                _ => {}
            }
        }
        let of_segments = self.segments.iter().filter(|s| s.device as usize == device).map(|s| s.stream);
        let streams: BTreeSet<u64> = entries.iter().map(|e| e.stream).chain(of_segments).collect();
        Ok(History {
            trace: Trace { ops: writer.ops, slots: writer.vacancies.most() },
            stacks: writer.stacks,
            segments_before,
            blocks_before,
            streams: streams.len(),
        })
    }

    /// How memory lay before the first entry: what lies at the end, the history undone.
    fn before(&self, device: usize, entries: &[TraceEntry]) -> (Vec<(u64, u64)>, Vec<Before>) {
        let mut segments = Extents::default();
        let mut blocks = BTreeMap::new();
        for segment in self.segments.iter().filter(|s| s.device as usize == device) {
            segments.add(segment.address, segment.bytes);
            for block in segment.blocks.iter().filter(|b| b.state.is_active()) {
                blocks.insert(block.address, Before { address: block.address, requested: block.requested, stack: block.stack });
            }
        }
        for entry in entries.iter().rev() {
            let TraceEntry { address, bytes, .. } = *entry;
            match entry.action {
                TraceAction::Alloc => drop(blocks.remove(&address)),
                TraceAction::FreeCompleted => drop(blocks.insert(address, Before { address, requested: bytes, stack: None })),
                TraceAction::SegmentAlloc | TraceAction::SegmentMap => segments.remove(address, bytes),
                TraceAction::SegmentFree | TraceAction::SegmentUnmap => segments.add(address, bytes),
                _ => {}
            }
        }
        (segments.extents.into_iter().collect(), blocks.into_values().collect())
    }

    /// The entries before which the program gave back its cache.
    fn emptied(&self, entries: &[TraceEntry], mut reserved: u64, total: u64) -> Vec<usize> {
        // What is not there cannot be had: where a request failed, all there was had been reserved or was free.
        let mut capacity = total - total / 10;
        let mut held = reserved;
        for entry in entries {
            match entry.action {
                TraceAction::SegmentAlloc | TraceAction::SegmentMap => held = held.saturating_add(entry.bytes),
                TraceAction::SegmentFree | TraceAction::SegmentUnmap => held = held.saturating_sub(entry.bytes),
                TraceAction::Oom => capacity = capacity.min(held.saturating_add(entry.address)),
                _ => {}
            }
        }
        let collects = self.settings.contains("garbage_collection_threshold");
        let mut emptied = Vec::new();
        let mut at = 0;
        while let Some(entry) = entries.get(at) {
            match entry.action {
                TraceAction::SegmentAlloc | TraceAction::SegmentMap => reserved = reserved.saturating_add(entry.bytes),
                TraceAction::SegmentFree | TraceAction::SegmentUnmap => {
                    let before = reserved;
                    let start = at;
                    while let Some(gone) =
                        entries.get(at).filter(|e| matches!(e.action, TraceAction::SegmentFree | TraceAction::SegmentUnmap))
                    {
                        reserved = reserved.saturating_sub(gone.bytes);
                        at += 1;
                    }
                    let by_itself = entries.get(at).is_some_and(|next| match next.action {
                        TraceAction::SegmentAlloc | TraceAction::SegmentMap => collects || before.saturating_add(next.bytes) > capacity,
                        TraceAction::Oom => true,
                        _ => false,
                    });
                    if !by_itself {
                        emptied.push(start);
                    }
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        emptied
    }
}

#[derive(Default)]
struct Writer {
    ops: Vec<Op>,
    stacks: Vec<Option<u32>>,
    slots: HashMap<u64, u32>,
    vacancies: Slots,
}

impl Writer {
    fn push(&mut self, op: Op, stack: Option<u32>) {
        self.ops.push(op);
        self.stacks.push(stack);
    }

    fn alloc(&mut self, address: u64, bytes: u64, stack: Option<u32>) {
        let slot = self.vacancies.take();
        self.slots.insert(address, slot);
        self.push(Op::Alloc { slot, bytes }, stack);
    }

    fn free(&mut self, address: u64, stack: Option<u32>) {
        if let Some(slot) = self.slots.remove(&address) {
            self.vacancies.give(slot);
            self.push(Op::Free { slot }, stack);
        }
    }
}

/// Stretches of address space, none touching another twice.
#[derive(Debug, Default)]
struct Extents {
    extents: BTreeMap<u64, u64>,
}

impl Extents {
    fn add(&mut self, address: u64, bytes: u64) {
        self.remove(address, bytes);
        if bytes > 0 {
            self.extents.insert(address, bytes);
        }
    }

    /// Cuts a stretch out of whatever has it.
    fn remove(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let mut touched: Vec<(u64, u64)> = self.extents.range(address..end).map(|(a, b)| (*a, *b)).collect();
        touched.extend(self.extents.range(..address).next_back().map(|(a, b)| (*a, *b)).filter(|(a, b)| a.saturating_add(*b) > address));
        for (from, length) in touched {
            self.extents.remove(&from);
            if from < address {
                self.extents.insert(from, address - from);
            }
            let to = from.saturating_add(length);
            if to > end {
                self.extents.insert(end, to - end);
            }
        }
    }
}
