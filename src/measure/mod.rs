//! Measuring: what each number of a row is, and where it is read.
//!
//! `allocated`, `peak` and `reserved` are the allocator's own statistics, which count whole blocks; the categories count the same blocks by
//! the role of the storage that holds them. What the driver takes besides (its context, library code) is in none of them:
//! [`DeviceMemory`](crate::record::DeviceMemory) tells those apart.

mod device;
mod probe;
mod recorder;
mod sampler;
mod stretches;

pub use device::{count_loaded, device_memory};
pub use probe::{out_of_memory, row};
pub use recorder::{End, Entry, Failure, Held, Recorder};
pub use sampler::Sampler;
pub use stretches::Stretches;
