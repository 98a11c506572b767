//! What the allocator tells a listener, in the order in which PyTorch's memory history has it. Without a listener nothing is built.

/// Called with every event as it happens.
pub type Listener = Box<dyn FnMut(Event)>;

/// One thing the allocator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub action: Action,
    /// Alloc and free: bytes requested. Oom: the request, rounded. Segments: bytes allocated, mapped or given back.
    pub bytes: u64,
    /// Where; 0 for oom.
    pub address: u64,
    /// Alloc and free: bytes counted, the block's size. Otherwise as `bytes`.
    pub block: u64,
}

/// The kinds of [`Event`], by PyTorch's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // PyTorch's own words
pub enum Action {
    Alloc,
    Free,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Oom,
}

impl Action {
    /// The name in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::Free => "free",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Oom => "oom",
        }
    }
}
