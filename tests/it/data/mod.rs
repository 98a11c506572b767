//! The input pipeline as a user meets it: files in, batches that the model trains on, and what is wrong with files.

mod batches;
#[cfg(target_os = "linux")]
mod device;
mod failures;
pub(crate) mod files;
mod formats;
mod language;
mod memory;
mod stages;
