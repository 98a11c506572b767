//! `batch_norm`: Batch normalisation. Inputs: x, weight, bias, running_mean, running_var, num_batches_tracked.

mod kernel;
mod kernel_cuda;
mod kernel_host;
pub mod rule;
