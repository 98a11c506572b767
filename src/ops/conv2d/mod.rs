//! `conv2d`: Two-dimensional convolution. Inputs: x, weight, bias if `bias`.

mod kernel;
mod kernel_cuda;
mod kernel_host;
pub mod rule;
