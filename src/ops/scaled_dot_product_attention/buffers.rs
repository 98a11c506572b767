//! Sizes of the buffers that PyTorch's own attention kernels take besides outputs and gradients, in bytes. Formulas after
//! `flash_api.cpp` and `attention_backward.cu`, tiles as measured on emulated GPUs of compute capability 7.5 to 9.0.

use super::rule::Problem;
use crate::gpu::Gpu;

/// Parts that FlashAttention's forward cuts keys into, so that the GPU is full: the fewest that come within 85 % of the best use.
pub(super) fn flash_splits(gpu: &Gpu, p: &Problem, dropout: bool) -> u64 {
    let rows = p.batch * p.heads * p.length.div_ceil(64);
    let places = 2 * u64::from(gpu.multiprocessors);
    let columns = if p.head <= 64 {
        256
    } else if p.head <= 128 {
        128
    } else {
        64
    };
    let blocks = p.length.div_ceil(columns);
    if dropout || rows as f64 >= 0.8 * places as f64 {
        return 1;
    }
    // As many parts as a smaller number gives are no more parts.
    let eligible = (1..=blocks.min(128).min(places)).filter(|&s| s == 1 || blocks.div_ceil(s) != blocks.div_ceil(s - 1));
    let of = |s: u64| {
        let waves = (rows * s) as f32 / places as f32;
        (s, waves / waves.ceil())
    };
    let uses: Vec<(u64, f32)> = eligible.map(of).collect();
    let best = uses.iter().fold(0.0, |best: f32, &(_, e)| best.max(e));
    uses.into_iter().find(|&(_, e)| e >= 0.85 * best).map_or(1, |(s, _)| s)
}

/// Of the parts: logarithms of sums, and outputs.
pub(super) fn flash_parts(p: &Problem, splits: u64) -> [u64; 2] {
    if splits == 1 {
        return [0, 0];
    }
    let rows = splits * p.batch * p.heads * p.length;
    [rows * 4, rows * flash_head(p) * 4]
}

/// FlashAttention's backward: the sum of gradient times output of each row, and the queries' gradient in f32.
pub(super) fn flash_backward(p: &Problem) -> [u64; 2] {
    let rows = p.batch * p.heads * p.length.next_multiple_of(128);
    [rows * 4, rows * flash_head(p) * 4]
}

/// A row of a head in FlashAttention's f32 buffers: heads are padded to what its kernels are compiled for.
fn flash_head(p: &Problem) -> u64 {
    p.head.next_multiple_of(if p.head <= 128 { 32 } else { 64 })
}

/// The logarithms of sums that memory-efficient attention keeps: rows are padded.
pub(super) fn efficient_log_sums(p: &Problem) -> u64 {
    p.batch * p.heads * p.length.next_multiple_of(32) * 4
}

/// What memory-efficient attention's forward adds outputs up in: half types with heads too large for registers need f32 beside them.
pub(super) fn efficient_outputs(p: &Problem) -> u64 {
    if p.dtype.is_half() && p.head > 128 { p.batch * p.heads * p.length * p.head * 4 } else { 0 }
}

/// Memory-efficient attention's backward: a tile of the queries' gradient and a lock for each block of rows and features; for half types
/// and heads over 128 also keys' and values' gradients in f32.
pub(super) fn efficient_backward(gpu: &Gpu, p: &Problem) -> u64 {
    let half = p.dtype.is_half();
    let (rows, columns) = match (p.head, half, gpu.capability) {
        (..=64, _, _) | (_, false, (..8, _)) => (64, 64),
        (..=96, true, (8, 6 | 9)) | (..=128, true, (..8, _)) => (128, 64),
        (..=128, true, _) => (128, 128),
        _ => (128, 64),
    };
    let heads = p.batch * p.heads;
    let tiles = heads * p.length.div_ceil(rows) * p.head.div_ceil(columns) * (4 * rows * columns + 16);
    let sums = if half && p.head > 128 { 2 * heads * p.length.next_multiple_of(columns) * p.head.next_multiple_of(128) * 4 } else { 0 };
    tiles + sums
}
