//! What `embedding` does to memory. Backward's scratch is that of PyTorch's `embedding_backward_cuda_kernel` and of the CUB
//! primitives that it calls, whose tiles depend on the GPU.

use crate::gpu::Gpu;
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError};

/// Rows of a table, looked up. Inputs: weight (rows, features), indices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Embedding;

/// Up to as many indices, each is added where it belongs at once; more are sorted first.
const UNSORTED: u64 = 3072;
/// A segment of equal indices is cut into parts of so many.
const PART: u64 = 10;

impl OpRule for Embedding {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let (weight, indices) = (&inputs[0], &inputs[1]);
        if weight.shape.rank() != 2 || indices.dtype != DType::I64 {
            return Err(ShapeError {
                message: format!("embedding needs a matrix and int64 indices, got {} and {}", weight.shape, indices.dtype),
            });
        }
        let dims: Vec<u64> = indices.shape.dims().iter().copied().chain([weight.shape.last()]).collect();
        Ok(vec![TensorMeta::contiguous(Shape::new(dims)?, weight.dtype)])
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let mut r = Recipe::new();
        r.keep(Saved::Input(1), needs[0]);
        let slot = r.tensor(&out);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let (Some(incoming), true) = (&grads[0], needs[0]) else { return r.backward(vec![Gradient::None; 2]) };
        let copy = (!incoming.is_contiguous()).then(|| r.tensor(&incoming.like()));
        let (weight, indices) = (&inputs[0], inputs[1].numel());
        let out = if indices <= UNSORTED { r.tensor(&weight.like()) } else { sorted(&mut r, cx.gpu, weight, indices) };
        if let Some(copy) = copy {
            r.free(copy);
        }
        r.backward(vec![Gradient::New(out, weight.like()), Gradient::None])
    }
}

/// The gradient by way of sorted indices.
fn sorted(r: &mut Recipe, gpu: &Gpu, weight: &TensorMeta, indices: u64) -> usize {
    let index = DType::I64.bytes();
    let list = indices * index;
    let (keys, places) = (r.alloc(list), r.alloc(list));
    let numbers = r.alloc(list);
    r.temporary(radix_sort(gpu, indices));
    r.free(numbers);
    let out = r.tensor(&weight.like());
    // Where each segment begins; how many there are.
    let (segments, count) = (r.alloc(list), r.alloc(index));
    let positions = r.alloc(list);
    r.temporary(tiles(indices, unique_tile(gpu)));
    r.free(positions);
    // No more segments than rows; their parts, and where each segment's begin.
    let most = indices.min(weight.shape.dims()[0]);
    let (parts, starts) = (r.alloc(most * index), r.alloc(most * index));
    r.temporary(tiles(most, SCAN_TILE));
    let total = r.alloc(index);
    let most_parts = indices / PART + most;
    let offsets = r.alloc(most_parts * index);
    let sums = if are_few(gpu, most, most_parts) {
        // Each part is added to the gradient itself, and so its segment is noted; halves are summed in f32 first.
        let numbers = r.alloc(most_parts * index);
        if weight.dtype.is_half() {
            r.temporary(weight.numel() * weight.dtype.accumulator().bytes());
        }
        numbers
    } else {
        r.alloc(most_parts * weight.shape.last() * weight.dtype.accumulator().bytes())
    };
    [sums, offsets, total, starts, parts, count, segments, places, keys].into_iter().for_each(|slot| r.free(slot));
    out
}

/// Whether PyTorch adds parts up without sums of their own: where segments are too few to keep the multiprocessors busy, and long. Found by
/// trying rows, columns and types on emulated GPUs of 40 to 132 multiprocessors: four segments a multiprocessor, four parts a segment.
fn are_few(gpu: &Gpu, segments: u64, parts: u64) -> bool {
    segments < 4 * u64::from(gpu.multiprocessors) && parts > 4 * segments
}

/// Elements a thread block of CUB's scan works on.
const SCAN_TILE: u64 = 896;

/// CUB's temporary storage is laid out in pieces of 256 bytes, and begins at a multiple of that: 255 more are asked for.
const PIECE: u64 = 256;

/// `cub::DeviceRadixSort` of pairs of 8 bytes: both buffers a second time, histograms of eight passes, and a look-back of 256 counters
/// a tile. Measured on emulated GPUs of compute capability 7.5 to 10.0.
fn radix_sort(gpu: &Gpu, n: u64) -> u64 {
    let tile = match gpu.capability {
        (9.., _) => 4608,
        (8, _) => 3840,
        _ => 2816,
    };
    const HISTOGRAMS: u64 = 8 * 256 * 8 + PIECE;
    2 * (8 * n).next_multiple_of(PIECE) + 1024 * n.div_ceil(tile) + HISTOGRAMS + PIECE - 1
}

/// Elements a thread block of CUB's unique-by-key works on.
fn unique_tile(gpu: &Gpu) -> u64 {
    match gpu.capability {
        (10.., _) => 3840,
        (9, _) => 4480,
        (8, 0) => 1792,
        _ => 320,
    }
}

/// A scan's temporary storage: 16 bytes a tile and for 32 tiles in front.
fn tiles(n: u64, tile: u64) -> u64 {
    ((n.div_ceil(tile) + 32) * 16).next_multiple_of(PIECE) + PIECE + PIECE - 1
}
