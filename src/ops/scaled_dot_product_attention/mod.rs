//! `scaled_dot_product_attention`: `softmax(q · kᵀ / √d) · v` in one kernel, with the buffers of the implementation that PyTorch takes.

pub mod backend;
mod buffers;
mod kernel;
mod kernel_cuda;
mod kernel_host;
pub mod rule;
