//! The parts of a dump, by PyTorch's names. Sizes are bytes.

use std::rc::Rc;

use crate::alloc::AllocatorConfig;

/// A whole dump.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dump {
    /// Every segment, by address.
    pub segments: Vec<DumpSegment>,
    /// What happened, a list a device.
    pub traces: Vec<Vec<TraceEntry>>,
    /// Stacks of frames, innermost first, each stack once; entries refer to them by number. Stacks share frames.
    pub stacks: Vec<Vec<Rc<Frame>>>,
    /// Allocator settings in PyTorch's notation.
    pub settings: String,
    /// The same, read, where they are this program's own.
    pub config: Option<AllocatorConfig>,
    /// Stretches of time with a name.
    pub annotations: Vec<Annotation>,
}

/// A segment; of one that expands, a stretch that is mapped without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpSegment {
    /// The GPU's number.
    pub device: u32,
    /// Where it begins.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The stream that it belongs to; 0 is the default one.
    pub stream: u64,
    /// Whether it is the large pool's.
    pub large: bool,
    /// Whether it is part of one that expands.
    pub expandable: bool,
    /// What tiles it, by address.
    pub blocks: Vec<DumpBlock>,
}

/// A block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpBlock {
    /// Where it begins.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// What its client asked for.
    pub requested: u64,
    /// Who holds it.
    pub state: DumpState,
    /// The stack it was allocated on, by number.
    pub stack: Option<u32>,
}

/// Who holds a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpState {
    /// A client.
    Allocated,
    /// Nobody but another stream's work.
    PendingFree,
    /// Nobody.
    Inactive,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEntry {
    /// What.
    pub action: TraceAction,
    /// Where; of `oom` what was free on the device.
    pub address: u64,
    /// Alloc and free: bytes asked for. Otherwise bytes of the segment, or of the rounded request.
    pub bytes: u64,
    /// On which stream.
    pub stream: u64,
    /// When, in microseconds.
    pub time_us: u64,
    /// On which stack, by number.
    pub stack: Option<u32>,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // PyTorch's own words
pub enum TraceAction {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Snapshot,
    Oom,
}

/// A place in a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function.
    pub name: String,
    /// The file.
    pub filename: String,
    /// The line.
    pub line: u64,
}

/// A named moment: a phase begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The GPU's number.
    pub device: u32,
    /// Whether it begins.
    pub start: bool,
    /// Its name.
    pub name: String,
    /// When, in microseconds.
    pub time_us: u64,
}

impl DumpState {
    pub(super) const ALL: [Self; 3] = [Self::Allocated, Self::PendingFree, Self::Inactive];

    /// PyTorch's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocated => "active_allocated",
            Self::PendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }

    /// Whether its bytes are in use.
    #[must_use]
    pub const fn is_active(self) -> bool {
        !matches!(self, Self::Inactive)
    }
}

impl TraceAction {
    pub(super) const ALL: [Self; 9] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Snapshot,
        Self::Oom,
    ];

    /// PyTorch's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
        }
    }
}
