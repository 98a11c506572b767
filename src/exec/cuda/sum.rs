//! Sums over dimensions. Where the caller has room for partial results, several blocks share the elements of one sum.

use crate::device::Operand;
use crate::device::cuda::{Arg, Cuda, Grid, Kernel, Source, View};
use crate::meta::{DType, Shape, TensorMeta};

static SOURCE: Source = Source { name: "sum", text: include_str!("sum.cu") };

/// Room for partial results in the accumulator's type.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Room {
    pub(in crate::exec) address: u64,
    pub(in crate::exec) bytes: u64,
}

/// `out = factor * sum of x` over the dimensions that `reduced` marks; `out` is contiguous.
pub(in crate::exec) fn sum(cuda: &Cuda, x: Operand<'_>, reduced: &[bool], factor: f64, out: Operand<'_>, room: Option<Room>) {
    let call = Call { cuda, x: View::of(x), types: [x.meta.dtype, out.meta.dtype], factor, out, room };
    let runs = runs(&x.meta.shape, reduced);
    match runs[..] {
        _ if out.meta.numel() == 0 => {}
        [] => call.all(1),
        [(n, true)] => call.all(n),
        [(rows, false)] => call.rows(rows, 1),
        [(rows, false), (columns, true)] => call.rows(rows, columns),
        [(rows, true), (columns, false)] => call.columns(rows, columns),
        [(rows, true), (columns, false), (inner, true)] => call.planes(rows, columns, inner),
        _ => call.strided(x, reduced),
    }
}

/// The shape as runs of dimensions that are all reduced or all kept.
fn runs(shape: &Shape, reduced: &[bool]) -> Vec<(u64, bool)> {
    let mut runs: Vec<(u64, bool)> = Vec::new();
    for (&size, &reduced) in shape.dims().iter().zip(reduced).filter(|&(&size, _)| size != 1) {
        match runs.last_mut() {
            Some((run, same)) if *same == reduced => *run *= size,
            _ => runs.push((size, reduced)),
        }
    }
    runs
}

struct Call<'a> {
    cuda: &'a Cuda,
    x: View,
    types: [DType; 2],
    factor: f64,
    out: Operand<'a>,
    room: Option<Room>,
}

impl Call<'_> {
    fn launch(&self, entry: &'static str, grid: Grid, args: &[Arg<'_>]) {
        self.cuda.launch(Kernel { source: &SOURCE, entry, types: &self.types }, grid, args);
    }

    /// How many parts of `results` sums there is room for, at most `wanted`.
    fn parts(&self, results: u64, wanted: u64) -> (u32, u64) {
        let room = self.room.unwrap_or(Room { address: 0, bytes: 0 });
        let fit = room.bytes / (results * self.types[0].accumulator().bytes());
        let parts = fit.min(wanted).min(4096) as u32;
        if parts > 1 { (parts, room.address) } else { (1, 0) }
    }

    fn all(&self, n: u64) {
        let multiprocessors = u64::from(self.cuda.facts().gpu.multiprocessors);
        let (blocks, parts) = self.parts(1, (multiprocessors * 4).min(n.div_ceil(4096)));
        let args = [Arg::from(n), Arg::from(self.factor), self.out.into(), Arg::from(parts), Arg::from(&self.x)];
        self.launch("sum_all", Grid::line(blocks, 512), &args);
        if blocks > 1 {
            let args = [Arg::from(u64::from(blocks)), Arg::from(self.factor), self.out.into(), Arg::from(parts)];
            self.launch("sum_parts_of_one", Grid::line(1, 512), &args);
        }
    }

    fn rows(&self, rows: u64, columns: u64) {
        let kernel = Kernel { source: &SOURCE, entry: "sum_rows", types: &self.types };
        self.cuda.rows(kernel, rows, columns, &[Arg::from(self.factor), self.out.into(), Arg::from(&self.x)]);
    }

    fn columns(&self, rows: u64, columns: u64) {
        const FEW: u64 = 32;
        const MANY: u64 = 1 << 14;
        let sizes = [Arg::from(rows), Arg::from(columns), Arg::from(self.factor), self.out.into()];
        if rows <= FEW && columns >= MANY {
            self.launch("sum_short_columns", self.cuda.full(columns), &[&sizes[..], &[Arg::from(&self.x)]].concat());
            return;
        }
        let multiprocessors = u64::from(self.cuda.facts().gpu.multiprocessors);
        let wanted = (8 * multiprocessors).div_ceil(columns.div_ceil(32)).min(rows.div_ceil(256));
        let (tall, parts) = self.parts(columns, wanted);
        let args = [&sizes[..], &[Arg::from(parts), Arg::from(&self.x)]].concat();
        self.launch("sum_columns", Grid::columns(columns, tall), &args);
        self.join(columns, tall, parts);
    }

    fn planes(&self, rows: u64, columns: u64, inner: u64) {
        let multiprocessors = u64::from(self.cuda.facts().gpu.multiprocessors);
        let wanted = (16 * multiprocessors).div_ceil(columns).min((rows * inner).div_ceil(4096));
        let (tall, parts) = self.parts(columns, wanted);
        let sizes = [rows, columns, inner].map(Arg::from);
        let args = [&sizes[..], &[Arg::from(self.factor), self.out.into(), Arg::from(parts), Arg::from(&self.x)]].concat();
        let blocks = Grid::line(u32::try_from(columns).expect("a grid has fewer than 2^31 blocks, each of many elements"), 256);
        self.launch("sum_planes", Grid { blocks: (blocks.blocks.0, tall, 1), ..blocks }, &args);
        self.join(columns, tall, parts);
    }

    /// Adds up what several blocks found out, if there were several.
    fn join(&self, columns: u64, tall: u32, parts: u64) {
        if tall > 1 {
            let args = [Arg::from(u64::from(tall)), Arg::from(columns), Arg::from(self.factor), self.out.into(), Arg::from(parts)];
            self.launch("sum_parts", self.cuda.full(columns), &args);
        }
    }

    fn strided(&self, x: Operand<'_>, reduced: &[bool]) {
        let some = |wanted: bool| {
            let dims = x.meta.shape.dims().iter().zip(&x.meta.strides).zip(reduced);
            let (sizes, strides): (Vec<u64>, Vec<u64>) = dims.filter(|&(_, &r)| r == wanted).map(|((&d, &s), _)| (d, s)).unzip();
            TensorMeta { shape: Shape::new(sizes).expect("no more elements than the whole"), dtype: x.meta.dtype, strides }
        };
        let (kept, summed) = (some(false), some(true));
        let (first, rest) = (View::of(x.with(&kept)), View::of(x.with(&summed)));
        let sizes = [kept.numel(), summed.numel()].map(Arg::from);
        let args = [sizes[0], sizes[1], Arg::from(self.factor), self.out.into(), Arg::from(&first), Arg::from(&rest)];
        self.launch("sum_strided", Grid::warps(kept.numel()), &args);
    }
}
