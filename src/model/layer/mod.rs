//! Layers: one file each, with its fields, its check of shapes and its lowering to operators, after
//! [`torch.nn`](https://docs.pytorch.org/docs/stable/nn.html). A new layer is a file, its line here and one in the registry.

mod check;
mod registry;
mod sequence;

mod adaptive_avg_pool2d;
mod attention;
mod avg_pool2d;
mod batch_norm;
mod block;
mod checkpoint;
mod conv2d;
mod dropout;
mod embedding;
mod flatten;
mod gelu;
mod group_norm;
mod last;
mod layer_norm;
mod linear;
mod max_pool2d;
mod position_embedding;
mod recurrent;
mod relu;
mod repeat;
mod residual;
mod rms_norm;
mod scaled_dot_product;
mod sigmoid;
mod silu;
mod softmax;
mod swiglu;
mod tanh;
mod window;

pub use check::{Check, Mistake, Origin, Signal};
pub use registry::{BLOCK, KINDS, LayerKind, kind};
pub(in crate::model) use sequence::{At, sequential};
pub use sequence::{Item, Layer, Sequence};
