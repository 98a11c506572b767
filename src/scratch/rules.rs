//! Scratch without a library. Nothing here asks a device.

use super::{Request, Scratch};
use crate::gpu::Gpu;

/// Foresees what the libraries that PyTorch 2.11 brings along ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules;

impl Scratch for Rules {
    fn bytes(&self, _gpu: &Gpu, request: &Request) -> u64 {
        match request {
            Request::Convolution(_) | Request::Recurrent(_) => 0,
        }
    }
}
