//! Saves: the state of a training run after a step, as a file to go on from.
//!
//! A save is a safetensors file: weights and buffers under their names, the optimizer's state under `optimizer.`, and what else decides
//! the next step as JSON in its metadata. Nothing here knows a device or a plan. Reading order: `snapshot`, `file`, `saver`.
//!
//! Invariant: the path of a save holds the last save that was finished, whole, also where the process is killed while it writes.

mod file;
mod saver;
mod snapshot;

pub use file::{SaveError, read, write};
pub use saver::Saver;
pub use snapshot::{About, Snapshot, Stored};
