//! The caching allocator: which bytes PyTorch 2.11 would hand out, keep, split, merge and give back. Pure policy over a
//! [`Backing`], which is the only thing that knows where memory comes from. Nothing here knows tensors or devices.
//!
//! The policy in short, before any code (sizes in `size`, the order of fallbacks in `allocator`):
//!
//! - A request is rounded up to 512 bytes; up to 1 MiB it belongs to the small pool, above to the large one.
//! - The smallest free block of its pool that holds it is taken, the lowest address among equals, and split if enough is left.
//! - Without one, a new segment is asked of the backing: 2 MiB, 20 MiB, or the request rounded up to 2 MiB.
//! - Without that, cached segments are given back and the backing is asked again; then memory has run out.
//! - A freed block merges with its free neighbours. Segments stay until they are given back.
//!
//! Reading order: `size`, `config`, `settings`, `backing`, `block`, `free_set`, `pool`, `stats`, `allocator`, `release`,
//! `expandable`, `oom`; then what looks on: `event`, `snapshot`, `portrait`, `summary`, `trace`, `replay`, `recording`, `dump`.

mod allocator;
mod backing;
mod block;
mod config;
mod dump;
mod event;
mod expandable;
mod failing;
mod free_set;
mod oom;
mod pickle;
mod placement;
mod pool;
mod portrait;
mod recorded;
mod recording;
mod release;
mod replay;
mod rmm;
mod settings;
mod size;
mod snapshot;
mod stats;
mod summary;
mod trace;

pub use allocator::Allocator;
pub use backing::{Backing, BackingError};
pub use block::Block;
pub use config::{AllocatorConfig, ConfigError, Divisions};
pub use dump::{
    Annotation, Before, Dump, DumpBlock, DumpError, DumpSegment, DumpState, Frame, History, HistoryError, TraceAction, TraceEntry,
    call_site,
};
pub use event::{Action, Event, Listener};
pub use failing::Failing;
pub use oom::OutOfMemory;
pub use pickle::{Cause, PickleError};
pub use placement::{AddressSpace, Placement};
pub use pool::PoolKind;
pub use recorded::{Recorded, RecordedSegment};
pub use recording::{OtherSegment, RecordingError, StatsTable, events_csv, first_other_segment, recorded_segments};
pub use replay::{Probe, replay, warm_up};
pub use rmm::{RMM_HEADER, RmmError, RmmLog};
pub use snapshot::{BlockInfo, BlockState, Segment, Snapshot};
pub use stats::{Stat, StatArray, Stats};
pub use summary::memory_summary;
pub use trace::{Op, TRACE_HEADER, Trace, TraceError};
