//! NVIDIA GPUs: the driver, NVRTC, cuBLAS and cuBLASLt, all loaded at run time. The only unsafe code of this program is in this folder, each
//! block with the reason why it is sound.
//!
//! Reading order: `error`, `bindings`, `library`, `nvml`, `facts`, `context`, `pinned`, `segments`, `cache`, `module`, `view`, `launch`, `lists`,
//! `blas`, `matmul`, `algorithms`.
#![allow(unsafe_code)]

mod algorithms;
mod bindings;
mod blas;
mod cache;
mod context;
mod error;
mod facts;
mod launch;
mod library;
mod lists;
mod matmul;
mod module;
mod nvml;
mod pinned;
mod segments;
mod view;

pub use blas::{Batch, Matrix, Pass, Product, Workspace};
pub use context::{Cuda, Start, Usage};
pub use error::{CudaError, MissingLibrary};
pub use facts::{DriverVersion, Facts, driver_version, facts, gpus};
pub use launch::{Arg, Grid};
pub use library::{Found, Library};
pub use lists::Entry;
pub use module::{Kernel, Source};
pub use pinned::{Pending, Pinned};
pub use segments::Segments;
pub use view::View;
