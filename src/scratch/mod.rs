//! Scratch of libraries: what cuDNN asks of the allocator besides the tensors it works on. Three can tell how much: the rules, which know
//! no library; a file in which a run on a GPU wrote down what it was asked for; the library itself. Whoever asks does not know which.
//!
//! Invariant: an answer depends on the request and the GPU alone, so that it can be written down and asked again.

mod answered;
mod asked;
mod attention;
mod calibrated;
pub mod convolution;
mod digest;
mod recorded;
mod request;
mod rules;

pub use answered::Answered;
pub use asked::Asked;
pub use calibrated::Calibrated;
pub use recorded::{Recorded, RecordedError};
pub use request::{Attention, Buffer, Cell, Convolution, Direction, Recurrent, Request};
pub use rules::Rules;

use crate::gpu::Gpu;

/// Tells what a library will ask for.
pub trait Scratch: std::fmt::Debug {
    /// Bytes of the buffer, before the allocator rounds them; 0 where none is asked for.
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64;

    /// Where that is a file: what kind of file, and a digest of what it tells. Empty where the program or a library knows by itself.
    fn origin(&self) -> String {
        String::new()
    }
}
