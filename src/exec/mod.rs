//! The execution context: what an operator works with besides its arguments. It allocates tensors, holds the libraries' workspaces
//! and computes the primitives that PyTorch's operators share (matrix products, sums, copies), each with PyTorch's scratch.
//!
//! Nothing here knows gradients or operators. Scratch sizes are computed from what is being done; the predictor's rules state them
//! a second time, on their own.

mod add;
mod blas;
mod call_workspace;
mod clock;
mod context;
mod copy;
pub(crate) mod cuda;
mod random;
mod reduction;
mod sum;
mod transfer;
mod uploads;
mod workspace;

pub use call_workspace::CallWorkspace;
pub use clock::Reached;
pub use context::Exec;
pub use random::{Generator, Stream};
pub(crate) use sum::Combine;
pub use transfer::{Later, Staged};
pub use uploads::{Needed, Room, Uploads};
pub use workspace::{Thread, Workspace};

/// What running can end in: a value, or no memory for it.
pub type Result<T> = std::result::Result<T, crate::alloc::OutOfMemory>;
