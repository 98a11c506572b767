//! Scratch by trees of one's own for convolutions, and by the rules for all else.

use std::path::Path;

use super::convolution::{Trees, TreesError};
use super::digest::digest;
use super::{Request, Rules, Scratch, convolution};
use crate::gpu::Gpu;

/// What libraries ask for on a GPU whose convolutions were asked for by `runner calibrate`.
#[derive(Debug, Clone)]
pub struct Calibrated {
    trees: Trees,
}

impl Calibrated {
    /// Reads a file of trees for use as `gpu`.
    ///
    /// # Errors
    /// [`TreesError`] where it cannot be read, holds anything else, or is of another GPU.
    pub fn read(path: &Path, gpu: &Gpu) -> Result<Self, TreesError> {
        Ok(Self { trees: Trees::read(path, gpu)? })
    }
}

impl Scratch for Calibrated {
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64 {
        match request {
            Request::Convolution(call) => convolution::bytes(gpu, call, &self.trees),
            Request::Attention(_) | Request::Recurrent(_) => Rules.bytes(gpu, request),
        }
    }

    fn origin(&self) -> String {
        format!("calibration {:016x}", digest(self.trees.text().into_bytes()))
    }
}
