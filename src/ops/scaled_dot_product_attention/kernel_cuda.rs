//! Attention on a GPU: which kernel, how many blocks, and its arguments as one struct, field by field as `kernel.cu` declares it.

use super::kernel::Sizes;
use crate::device::Operand;
use crate::device::cuda::{Arg, Cuda, Grid, Kernel, Source};
use crate::exec::Stream;
use crate::meta::DType;

/// One source a size of heads, without dropout and with it: a kernel's tiles have the size as a constant.
macro_rules! sources {
    ($name:literal, $file:literal, $($head:literal),+) => {
        [$((
            $head,
            [
                Source {
                    name: concat!($name, $head),
                    text: concat!("#define HEAD ", $head, "\n#define DROPS 0\n", include_str!("kernel_common.cu"), include_str!($file)),
                },
                Source {
                    name: concat!($name, $head, "_dropout"),
                    text: concat!("#define HEAD ", $head, "\n#define DROPS 1\n", include_str!("kernel_common.cu"), include_str!($file)),
                },
            ],
        )),+]
    };
}
/// For every type and GPU.
static PLAIN: [(u64, [Source; 2]); 4] = sources!["attention_", "kernel.cu", 32, 64, 128, 256];
/// On tensor cores.
static MMA: [(u64, [Source; 2]); 4] = sources!["attention_mma_", "kernel_mma.cu", 32, 64, 128, 256];

/// The largest heads that the tensor cores' kernels have registers and shared memory for, forward and backward.
const fn most_mma(dtype: DType) -> [u64; 2] {
    match dtype {
        DType::F16 | DType::BF16 => [256, 128],
        DType::F32 => [128, 64],
        _ => [0, 0],
    }
}

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
    /// Elements of a row in shared memory.
    head: u64,
    /// Its place in the lists of sources.
    size: usize,
    drops: bool,
    /// Whether forward is computed on tensor cores, and whether backward is.
    mma: [bool; 2],
    element: u64,
    batch_heads: u64,
    batch_kv_heads: u64,
    length: u64,
    settings: [u64; 10],
}

/// Threads a block.
const THREADS: u32 = 128;

impl Launch {
    pub(super) fn new(cuda: &Cuda, dtype: DType, s: &Sizes, scale: f64, causal: bool, keep: f64, stream: Option<Stream>) -> Self {
        let size = PLAIN.iter().position(|(most, _)| s.head <= *most).expect("fused attention has heads of at most 256 features");
        let Stream { seed, number } = stream.unwrap_or_default();
        let keep = if stream.is_some() { keep } else { 1.0 };
        let settings = [s.batch, s.heads, s.kv_heads, s.length, s.head, u64::from(causal), scale.to_bits(), keep.to_bits(), seed, number];
        Self {
            head: PLAIN[size].0,
            size,
            drops: keep < 1.0,
            mma: most_mma(dtype)
                .map(|most| s.head <= most && s.head.is_multiple_of(16 / dtype.bytes()) && cuda.facts().gpu.capability >= (8, 0)),
            element: dtype.bytes(),
            batch_heads: s.batch * s.heads,
            batch_kv_heads: s.batch * s.kv_heads,
            length: s.length,
            settings,
        }
    }

    /// Address and the steps of batch, head and row.
    fn matrix(t: Operand<'_>) -> [u64; 4] {
        [t.address, t.meta.strides[0], t.meta.strides[1], t.meta.strides[2]]
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
        let call = Call { cuda, source: self.source(self.mma[0]), dtype: q.meta.dtype, words: &words };
        let (tile, shared) = if self.mma[0] {
            let columns = if self.head * self.element > 256 { 32 } else { 64 };
            (64, (64 + 2 * columns) * self.mma_row())
        } else {
            let tile = if self.head > 128 { 16 } else { 32 };
            (tile, 4 * (2 * tile * (self.head + 4) + tile * (tile + 4)))
        };
        call.launch("attention_forward", (self.length.div_ceil(tile), self.batch_heads), shared);
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
        let call = Call { cuda, source: self.source(self.mma[1]), dtype: q.meta.dtype, words: &words };
        call.launch("attention_row_sums", (self.length.div_ceil(u64::from(THREADS / 32)), self.batch_heads), 0);
        let (tile, of_keys, of_queries) = if self.mma[1] {
            let shared = (2 * 64 + 4 * 32) * self.mma_row();
            (64, shared, shared)
        } else {
            let tile = if self.head > 64 { 16 } else { 32 };
            let held = if self.head > 128 { 3 } else { 4 };
            let (matrices, scores) = (held * 4 * tile * (self.head + 4), 4 * tile * (tile + 4));
            (tile, matrices + 2 * scores, matrices + scores)
        };
        let blocks = self.length.div_ceil(tile);
        call.launch("attention_backward_keys", (blocks, self.batch_kv_heads), of_keys);
        call.launch("attention_backward_queries", (blocks, self.batch_heads), of_queries);
    }

    fn source(&self, mma: bool) -> &'static Source {
        let sources = if mma { &MMA } else { &PLAIN };
        &sources[self.size].1[usize::from(self.drops)]
    }

    /// Bytes from one row to the next in shared memory.
    fn mma_row(&self) -> u64 {
        self.head * self.element + 16
    }
}

/// Kernels of one source and their common argument.
struct Call<'a> {
    cuda: &'a Cuda,
    source: &'static Source,
    dtype: DType,
    words: &'a [u64],
}

impl Call<'_> {
    /// `blocks` in x and y, `shared` bytes of memory a block.
    fn launch(&self, entry: &'static str, blocks: (u64, u64), shared: u64) {
        let kernel = Kernel { source: self.source, entry, types: &[self.dtype] };
        let count = |n: u64| u32::try_from(n).expect("a grid has fewer than 2^31 blocks, each of many elements");
        let grid = Grid { blocks: (count(blocks.0), count(blocks.1), 1), threads: (THREADS, 1, 1) };
        self.cuda.launch_with_shared(kernel, grid, count(shared), &[Arg::Struct(bytemuck::cast_slice(self.words))]);
    }
}
