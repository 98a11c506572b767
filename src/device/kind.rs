//! The devices there are. The set is closed: whoever computes matches on it and the compiler asks for every arm.

use std::rc::Rc;

use super::cuda::Cuda;
use super::host::Host;

/// What computes.
#[derive(Debug)]
pub enum Device {
    /// An NVIDIA GPU.
    Cuda(Rc<Cuda>),
    /// The CPU, on memory of its own.
    Host(Host),
    /// Nothing does: every allocation is real, every value is unknown.
    Virtual,
}
