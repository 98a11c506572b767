//! Workspace of cuDNN's convolutions, as PyTorch calls them: contiguous tensors, benchmark off, TF32 allowed. It tells how much, not who
//! computes; it says nothing of channels_last and of three dimensions.
//!
//! cuDNN foresees which of its engines is fastest, and the engine decides what is asked for: nothing; copies of the tensors in channels-last
//! order, channels padded; partial results of a sum that is split; counters of its parts. [`plan`] has the formulas. Which one holds is chosen by
//! trees of comparisons ([`choice`]), grown from cuDNN 9.19's own answers: for windows some 186,000 shapes, asked of its heuristics with an
//! H200's properties (they need no GPU); for 1×1 products, which cuDNN hands to a library of matrix products that does need one, 16,000 shapes asked
//! on an H200. They are cut to some 4,000 leaves (gradient of the weight: 9,000), for products to 600 (900). For f64 there is no tree: 5 calls
//! of 6 ask for nothing or one weight a sample.
//!
//! Accuracy on PyTorch's recordings on an H200 (f32, f16, bf16) that the trees have not seen: of 2,982 workspaces, 93 of 100 are right to the
//! byte (forward 94, gradient of the input 92, gradient of the weight 92), 81 of 100 convolutions in all three directions, and the sum is 1.3 % too
//! small. Windows in f32 are right 95 times of 100, products 87. What is missed: which product's sum is split (mostly where the batch is 1),
//! and in half precision how far blocks split the last tiles. Dilations are not in the trees. Other GPUs go by the same trees, with their own number
//! of multiprocessors: there it is a guess.
//!
//! Invariant: an answer is never an error; sizes past 63 bits are told as the largest.

mod choice;
mod geometry;
mod plan;

use self::geometry::Geometry;
use crate::gpu::Gpu;
use crate::meta::DType;
use crate::scratch::{Convolution, Direction};

/// Bytes of the workspace; no more than fits in 63 bits.
pub(super) fn bytes(gpu: &Gpu, request: &Convolution) -> u64 {
    let geometry = Geometry::new(request);
    let bytes = if request.is_native() {
        0
    } else if request.dtype == DType::F64 {
        double(&geometry)
    } else {
        choice::plan(&geometry).bytes(&geometry, gpu.multiprocessors)
    };
    u64::try_from(bytes).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}

/// In f64 only the gradient of a 1×1 weight asks for much: one weight a sample, summed afterwards.
fn double(g: &Geometry) -> u128 {
    let per_sample = g.direction == Direction::GradWeight && g.is_product() && g.pixels_in() > 1;
    if per_sample { g.n * g.weight() * g.element } else { 0 }
}
