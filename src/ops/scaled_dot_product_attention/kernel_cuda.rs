//! Attention on a GPU: which kernel, how many blocks, and its arguments as one struct, field by field as `kernel.cu` declares it.

use super::kernel::Sizes;
use crate::device::Operand;
use crate::device::cuda::{Arg, Cuda, Grid, Kernel, Source};
use crate::exec::Stream;

/// One source a size of heads: a kernel's tiles have it as a constant.
macro_rules! sources {
    ($($head:literal),+) => {
        [$(($head, Source { name: concat!("attention_", $head), text: concat!("#define HEAD ", $head, "\n", include_str!("kernel.cu")) })),+]
    };
}
static SOURCES: [(u64, Source); 4] = sources![32, 64, 128, 256];

/// Where the logarithms of sums are, and how far one head's are from the next's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    address: u64,
    pitch: u64,
}

impl Rows {
    pub(super) const fn new(address: u64, pitch: u64) -> Self {
        Self { address, pitch }
    }
}

/// A call.
pub(super) struct Launch {
    source: &'static Source,
    /// Elements of a row in shared memory.
    head: u64,
    batch_heads: u64,
    batch_kv_heads: u64,
    length: u64,
    settings: [u64; 10],
}

/// Threads a block.
const THREADS: u32 = 128;

impl Launch {
    pub(super) fn new(s: &Sizes, scale: f64, causal: bool, keep: f64, stream: Option<Stream>) -> Self {
        let (head, source) = SOURCES.iter().find(|(most, _)| s.head <= *most).expect("fused attention has heads of at most 256 features");
        let Stream { seed, number } = stream.unwrap_or_default();
        let keep = if stream.is_some() { keep } else { 1.0 };
        let settings = [s.batch, s.heads, s.kv_heads, s.length, s.head, u64::from(causal), scale.to_bits(), keep.to_bits(), seed, number];
        Self { source, head: *head, batch_heads: s.batch * s.heads, batch_kv_heads: s.batch * s.kv_heads, length: s.length, settings }
    }

    /// Address and the steps of batch, head and row.
    fn matrix(t: Operand<'_>) -> [u64; 4] {
        [t.address, t.meta.strides[0], t.meta.strides[1], t.meta.strides[2]]
    }

    fn launch(&self, cuda: &Cuda, entry: &'static str, of: Operand<'_>, blocks: (u64, u64), shared: u64, words: &[u64]) {
        let kernel = Kernel { source: self.source, entry, types: &[of.meta.dtype] };
        let count = |n: u64| u32::try_from(n).expect("a grid has fewer than 2^31 blocks, each of many elements");
        let grid = Grid { blocks: (count(blocks.0), count(blocks.1), 1), threads: (THREADS, 1, 1) };
        cuda.launch_with_shared(kernel, grid, count(shared), &[Arg::Struct(bytemuck::cast_slice(words))]);
    }

    fn words(&self, qkvo: [Operand<'_>; 4], rows: Rows, others: [[u64; 4]; 4], sums: u64) -> Vec<u64> {
        let tensors = qkvo.map(Self::matrix);
        let mut words: Vec<u64> = tensors.iter().chain(&others).flatten().copied().collect();
        words.extend([rows.address, rows.pitch, sums]);
        words.extend(self.settings);
        words
    }

    pub(super) fn forward(&self, cuda: &Cuda, [q, k, v, out]: [Operand<'_>; 4], rows: Rows) {
        if out.meta.numel() == 0 {
            return;
        }
        let words = self.words([q, k, v, out], rows, [[0; 4]; 4], 0);
        let tile = if self.head > 128 { 16 } else { 32 };
        let shared = 4 * (2 * tile * (self.head + 4) + tile * (tile + 4));
        self.launch(cuda, "attention_forward", q, (self.length.div_ceil(tile), self.batch_heads), shared, &words);
    }

    pub(super) fn backward(
        &self,
        cuda: &Cuda,
        [q, k, v, out]: [Operand<'_>; 4],
        rows: Rows,
        grad: Operand<'_>,
        sums: u64,
        to: [Operand<'_>; 3],
    ) {
        if out.meta.numel() == 0 {
            return;
        }
        let [dq, dk, dv] = to.map(Self::matrix);
        let words = self.words([q, k, v, out], rows, [Self::matrix(grad), dq, dk, dv], sums);
        let row_blocks = (self.batch_heads * self.length).div_ceil(u64::from(THREADS / 32));
        self.launch(cuda, "attention_row_sums", q, (row_blocks, 1), 0, &words);
        let tile = if self.head > 64 { 16 } else { 32 };
        let blocks = self.length.div_ceil(tile);
        let shared = 4 * (4 * tile * (self.head + 4) + 2 * tile * (tile + 4));
        self.launch(cuda, "attention_backward_keys", q, (blocks, self.batch_kv_heads), shared, &words);
        let shared = 4 * (4 * tile * (self.head + 4) + tile * (tile + 4));
        self.launch(cuda, "attention_backward_queries", q, (blocks, self.batch_heads), shared, &words);
    }
}
