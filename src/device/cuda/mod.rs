//! NVIDIA GPUs: the driver, NVRTC, cuBLAS and cuBLASLt, all loaded at run time. The only unsafe code of this program is in this folder,
//! each block with the reason why it is sound.
//!
//! Reading order: `error`, `bindings`, `library`, `nvml`, `facts`, `context`, `event`, `pinned`, `stream`, `staging`, `segments`, `cache`,
//! `module`, `view`, `launch`, `lists`, `blas`, `matmul`, `algorithms`, `dnn`, `graph`, `convolution`, `operations`, `attention_graph`,
//! `attention`, `recurrent`.
#![allow(unsafe_code)]

mod algorithms;
mod attention;
mod attention_graph;
mod bindings;
mod blas;
mod cache;
mod context;
mod convolution;
mod dnn;
mod error;
mod event;
mod facts;
mod graph;
mod launch;
mod library;
mod lists;
mod matmul;
mod module;
mod nvml;
mod operations;
mod pinned;
mod recurrent;
mod segments;
mod staging;
mod stream;
mod view;

pub use attention::AttentionTensors;
pub use blas::{Batch, Matrix, Pass, Product, Workspace};
pub use context::{Cuda, Start, Usage};
pub use convolution::ConvolutionTensors;
pub use error::{CudaError, MissingLibrary};
pub use event::Mark;
pub use facts::{DriverVersion, Facts, driver_version, facts, gpus};
pub use launch::{Arg, Grid};
pub use library::{Found, Library};
pub use lists::{Entry, pack};
pub use module::{Kernel, Source};
pub use nvml::{Gauge, Reading};
pub use pinned::{Chunk, Pending, Pinned};
pub use recurrent::{RecurrentGradients, RecurrentTensors};
pub use segments::Segments;
pub use staging::Staging;
pub use stream::CopyStream;
pub use view::View;
