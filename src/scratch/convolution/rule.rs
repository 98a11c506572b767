//! Workspace of cuDNN's convolutions, as PyTorch calls them: contiguous tensors, benchmark off, TF32 allowed. It tells how much, not who
//! computes; it says nothing of channels_last and of three dimensions.
//!
//! cuDNN foresees which of its engines is fastest, and the engine decides what is asked for: nothing; copies of the tensors in channels-last
//! order, channels padded; partial results of a sum that is split; counters of its parts. [`plan`](super::plan) has the formulas, among them how
//! an engine splits its last tiles (98 of 100 such sizes come out to the byte). Which formula holds is chosen by trees of comparisons
//! ([`trees`](super::trees)). For f64 there is no tree: 5 calls of 6 ask for nothing or one weight a sample.
//!
//! The trees that come with the program (`h200.trees`) were grown by `runner calibrate --from ANSWERS.csv -o src/scratch/convolution/h200.trees`
//! from 1,865,611 answers of cuDNN 9.19: what an H200 answered for some 450,000 convolutions in each direction (those of [`grid`](super::grid()),
//! without settings; with them shapes of the usual networks, torchvision's of weight 4 to 8, and random ones; batches of 1 to 512; f32, f16, bf16),
//! and for 170,000 more windows what the settings say that its heuristics name for an H200. Of the layers of 3,976 of PyTorch's recordings on an
//! H200 an eighth was left out ([`part`](super::part) 0 of 8), in all batches, types and directions. Of those 508 recordings 95.1 of 100 workspaces
//! are right to the byte, of 100 convolutions 86.0 in all three directions, and the sum is 0.3 % too small. Of 1,038 workspaces of 48 networks made
//! up afterwards, run on an H200, it is 95.6, 88.1 and 0.3 %; what PyTorch's allocator makes of them is right to the byte in 37 networks, and
//! within 2 % in 42.
//!
//! What is missed: sums of 1×1 products of one sample, which another library splits; engines by Fourier transforms; the tables of strided
//! gradients. Dilations are not in the trees. GPUs without trees of their own go by the H200's, with their own number of multiprocessors: there
//! it is a guess, and [`Calibrated`](crate::scratch::Calibrated) is better.
//!
//! Invariant: an answer is never an error; sizes past 63 bits are told as the largest.

use super::geometry::Geometry;
use super::plan::Plan;
use super::trees::Trees;
use crate::gpu::Gpu;
use crate::meta::DType;
use crate::scratch::{Convolution, Direction};

/// Bytes of the workspace by these trees; no more than fits in 63 bits.
pub(in crate::scratch) fn bytes(gpu: &Gpu, request: &Convolution, trees: &Trees) -> u64 {
    let geometry = Geometry::new(request);
    let bytes = if request.is_native() {
        0
    } else if request.dtype == DType::F64 {
        double(&geometry)
    } else if is_depthwise(request) {
        depthwise(&geometry, gpu.multiprocessors)
    } else {
        trees.plan(&geometry).bytes(&geometry, gpu.multiprocessors)
    };
    u64::try_from(bytes).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}

/// Whether a workspace is known without trees.
pub(super) fn has_rule(request: &Convolution) -> bool {
    request.is_native() || request.dtype == DType::F64 || is_depthwise(request)
}

fn is_depthwise(request: &Convolution) -> bool {
    request.groups > 1 && request.weight[1] == 1 && request.dtype == DType::F16
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
