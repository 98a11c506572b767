//! The input pipeline: samples from files, prepared by threads of their own, in batches, in the order that the seed says.
//!
//! It knows bytes and shapes, never a device, a tensor or an experiment file. Reading order: `settings` (what can be asked for), `sample`,
//! `source/` (one file a format: where samples come from), `prepare` (the named steps), `order` (which sample comes when), `batch` (the
//! bytes that a device takes), `pipeline` (the threads), `pack` (samples prepared once for all, as TFRecord), `error`.
//!
//! Invariant: batch number n holds the same bytes whatever the number of workers, the prefetch and the batches asked for before.

mod batch;
mod error;
mod order;
mod pack;
mod pipeline;
mod prepare;
mod random;
mod sample;
mod settings;
mod source;

pub use batch::{Batch, Slot};
pub use error::{DataError, PackError, Place};
pub use pack::pack;
pub use pipeline::Pipeline;
pub use prepare::Step;
pub use sample::{Array, Layout, Part, Sample};
pub use settings::{Cause, Feed, Files, Refusal, Settings};
pub use source::{Glance, Source, inspect, open};
