//! Operators: one folder each, with its rule (shapes and memory) and its kernels (computation).
//!
//! A rule states what PyTorch's operator does to memory; a kernel does it. The two are written apart, so that a
//! prediction and a measurement can disagree.
//!
//! Reading order: `rule` (what is stated) and `recipe` (how it is written), `kernel` (what is done), `operator` (the registry) with
//! `kernels`; then what several operators share, the rules' part in `elementwise`, `reduction`, `row_norm` and `window`, the kernels' in
//! `kernel_row_norm` and in [`exec`](crate::exec).

pub mod elementwise;
pub mod kernel;
mod kernel_row_norm;
mod kernels;
pub mod operator;
pub mod recipe;
pub mod reduction;
pub mod row_norm;
pub mod rule;
pub mod window;

pub mod adaptive_avg_pool2d;
pub mod add;
pub mod add_scalar;
pub mod avg_pool2d;
pub mod batch_norm;
pub mod bce_with_logits;
pub mod bmm;
pub mod causal_mask;
pub mod contiguous;
pub mod conv2d;
pub mod copy_into;
pub mod div_scalar;
pub mod dropout;
pub mod embedding;
pub mod expand;
pub mod gelu;
pub mod group_norm;
pub mod layer_norm;
pub mod linear;
pub mod log_softmax;
pub mod max_pool2d;
pub mod mean;
pub mod mean_last;
pub mod mse_loss;
pub mod mul;
pub mod mul_scalar;
pub mod nll_loss;
pub mod pad_last;
pub mod relu;
pub mod rms_norm;
pub mod rnn;
pub mod rsqrt;
pub mod scaled_dot_product_attention;
pub mod select;
pub mod sigmoid;
pub mod silu;
pub mod slice;
pub mod softmax;
pub mod split;
pub mod square;
pub mod sum;
pub mod tanh;
pub mod to_copy;
pub mod transpose;
pub mod view;
pub mod zeros;

pub use operator::Operator;
pub use rule::{Backward, Effect, Forward, Gradient, Library, OpRule, Output, RuleContext, Saved, ShapeError, Slot};
