//! Python's pickles of plain data: dicts by text, lists, tuples, numbers, text. What it writes, any Python reads, and so does PyTorch's
//! viewer, which knows few opcodes; what it reads is taken as data from a stranger.
//!
//! Invariant: nothing a pickle says is ever run, and reading one takes memory and time in proportion to its size.

mod decode;
mod encode;

pub use decode::{Cause, PickleError};
pub(super) use decode::{Pickle, Value};
pub(super) use encode::Encoder;
