//! Workspace of cuDNN's convolutions, as PyTorch calls them: contiguous tensors, benchmark off, TF32 allowed. It tells how much, not who
//! computes; it says nothing of channels_last and of three dimensions.
//!
//! cuDNN foresees which of its engines is fastest, and the engine decides what is asked for: nothing; copies of the tensors in channels-last
//! order, channels padded; partial results of a sum that is split; counters of its parts. [`plan`] has the formulas, among them how an engine
//! splits its last tiles (98 of 100 such sizes come out to the byte). Which formula holds is chosen by trees of comparisons ([`choice`]). For f64
//! there is no tree: 5 calls of 6 ask for nothing or one weight a sample.
//!
//! The trees were grown from what cuDNN 9.19 answers on an H200: workspaces and engine settings of the first plan that it can build, for 320,000
//! convolutions in each direction (shapes of the usual networks and of random ones, batches of 1 to 512, f32, f16, bf16; half of them 1×1),
//! and from the engines that its heuristics name for 180,000 more windows, small ones among them. Each answer was labelled with the formula that
//! gives its size; a decision tree (Gini impurity, best first) was grown for each direction, products apart, to 2,000 to 5,000 leaves, shapes
//! of networks weighing twelve times the others; thresholds were shortened to the fewest digits that part the same shapes.
//!
//! Accuracy on 994 of PyTorch's recordings on an H200 (f32, f16, bf16) that the trees have not seen, though they have seen the same layers with
//! other batches and types: of 100 workspaces 95 are right to the byte, of 100 convolutions 87 in all three directions. What is missed: sums
//! of 1×1 products of one sample, which another library splits; engines by Fourier transforms; the tables of strided gradients. Dilations are
//! not in the trees. Other GPUs go by the same trees, with their own number of multiprocessors: there it is a guess.
//!
//! Invariant: an answer is never an error; sizes past 63 bits are told as the largest.

mod choice;
mod geometry;
mod plan;

use self::geometry::Geometry;
use self::plan::Plan;
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
    } else if request.groups > 1 && request.weight[1] == 1 && request.dtype == DType::F16 {
        depthwise(&geometry, gpu.multiprocessors)
    } else {
        choice::plan(&geometry).bytes(&geometry, gpu.multiprocessors)
    };
    u64::try_from(bytes).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}

/// The depthwise convolutions that PyTorch leaves to cuDNN: all tensors are laid out anew for the gradient of large weights. So it was for 168 of
/// 175 on an H200, sizes to 1 in 100.
fn depthwise(g: &Geometry, multiprocessors: u32) -> u128 {
    let large = g.n * g.pixels_in() > 22_000 && g.c <= 700 && (g.h > 60 || g.c * g.window() > 924);
    let plan = if g.direction == Direction::GradWeight && large { Plan::Layout(147) } else { Plan::None };
    plan.bytes(g, multiprocessors)
}

/// In f64 only the gradient of a 1×1 weight asks for much: one weight a sample, summed afterwards.
fn double(g: &Geometry) -> u128 {
    let per_sample = g.direction == Direction::GradWeight && g.is_product() && g.pixels_in() > 1;
    if per_sample { g.n * g.weight() * g.element } else { 0 }
}
