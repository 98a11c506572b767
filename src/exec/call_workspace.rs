//! What a library works in during one call, taken from the allocator before the call and given back after it.

use super::{Exec, Result};
use crate::device::cuda;
use crate::scratch::Request;
use crate::tensor::Storage;

/// A workspace for one call.
#[derive(Debug)]
pub struct CallWorkspace {
    storage: Storage,
    bytes: u64,
}

impl CallWorkspace {
    /// It, as GPU code needs it.
    #[must_use]
    pub fn on_cuda(&self) -> cuda::Workspace {
        cuda::Workspace { address: self.storage.address(), bytes: self.bytes }
    }
}

impl Exec {
    /// As much as the library asks for.
    ///
    /// # Errors
    /// Out of memory.
    pub fn call_workspace(&self, request: &Request) -> Result<CallWorkspace> {
        let bytes = self.asked(request);
        Ok(CallWorkspace { storage: self.scratch(bytes)?, bytes })
    }
}
