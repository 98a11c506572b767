//! Memory snapshots as PyTorch dumps them (`torch.cuda.memory._dump_snapshot`): segments, blocks and the history that led to them, of any
//! number of devices and streams. It is what a dump says, written and read; whether it can be true is for `history` to find out.

mod history;
mod read;
mod site;
mod types;
mod write;

pub use history::{Before, History, HistoryError};
pub use read::DumpError;
pub use site::call_site;
pub use types::{Annotation, Dump, DumpBlock, DumpSegment, DumpState, Frame, TraceAction, TraceEntry};
