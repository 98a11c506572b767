//! Scratch without a library: formulas over shapes, each file with its source and how often it is right. Nothing here asks a device.

mod recurrent;

use super::convolution::{self, Trees};
use super::{Request, Scratch};
use crate::gpu::Gpu;

/// Foresees what the libraries that PyTorch 2.11 brings along ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules;

impl Scratch for Rules {
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64 {
        match request {
            Request::Attention(attention) => attention.workspace(),
            Request::Convolution(c) => convolution::bytes(gpu, c, Trees::built_in()),
            Request::Recurrent(r) => recurrent::bytes(gpu, r),
        }
    }
}
