//! Computation row by row: normalisations, softmax. A row is what lies along the last dimension.

use std::array::from_fn;
use std::borrow::Cow;

use super::element::Real;
use super::lend::Host;
use super::view::{View, ViewMut, usize_of};
use crate::device::Operand;

/// Elements below which one thread does everything, and the least that a thread takes.
const GRAIN: usize = 1 << 14;

/// An operand as rows see it.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    /// A stretch of it belongs to each row: a whole row, or a statistic.
    Each(Operand<'a>),
    /// All of it belongs to every row: a weight.
    Shared(Operand<'a>),
}

/// How many rows a tensor has.
pub(crate) fn rows(of: Operand<'_>) -> usize {
    usize_of(of.meta.shape.rows())
}

/// The largest value; below every number where there is none.
#[inline]
pub(crate) fn maximum<R: Real>(values: &[R]) -> R {
    values.iter().fold(R::LOWEST, |most, &v| if v > most { v } else { most })
}

impl<'a> Row<'a> {
    const fn operand(self) -> Operand<'a> {
        match self {
            Self::Each(o) | Self::Shared(o) => o,
        }
    }
}

/// Gives rows of operands as slices.
struct RowReader<'a, R: Real, const N: usize> {
    operands: [Reader<'a, R>; N],
}

enum Reader<'a, R: Real> {
    Each { view: &'a View<'a>, width: usize },
    Shared(Cow<'a, [R]>),
}

impl<'a, R: Real, const N: usize> RowReader<'a, R, N> {
    fn new(rows: &[Row<'_>; N], views: &'a [View<'a>; N], count: usize) -> Self {
        let operands = from_fn(|k| match rows[k] {
            Row::Each(_) => {
                let width = views[k].len() / count.max(1);
                assert_eq!(views[k].len(), width * count, "rows are of one width");
                Reader::Each { view: &views[k], width }
            }
            Row::Shared(_) => Reader::Shared(views[k].stored().map_or_else(
                || {
                    let mut all = vec![R::ZERO; views[k].len()];
                    views[k].load(0, &mut all);
                    Cow::Owned(all)
                },
                Cow::Borrowed,
            )),
        });
        Self { operands }
    }

    /// Row number `row` of every operand.
    fn row<'b>(&'b self, row: usize, buffers: &'b mut [Vec<R>; N]) -> [&'b [R]; N] {
        let mut buffers = buffers.iter_mut();
        from_fn(|k| {
            let buffer = buffers.next().expect("a buffer for each operand");
            match &self.operands[k] {
                Reader::Each { view, width } => view.slice(row * width, *width, buffer),
                Reader::Shared(all) => all,
            }
        })
    }
}

impl Host {
    /// Calls `compute(reads, writes)` for each of `rows` rows, with that row of every operand.
    ///
    /// # Panics
    /// Where a written operand is not contiguous, or is not as many rows.
    pub fn rows<R: Real, const N: usize, const M: usize>(
        &self,
        rows: usize,
        reads: [Row<'_>; N],
        writes: [Operand<'_>; M],
        compute: impl Fn([&[R]; N], [&mut [R]; M]) + Sync,
    ) {
        if rows == 0 {
            return;
        }
        self.lend(reads.map(Row::operand), writes, |views, writes| {
            let reader = RowReader::new(&reads, &views, rows);
            let widths = writes.each_ref().map(|w| w.len() / rows);
            for (write, width) in writes.iter().zip(widths) {
                assert_eq!(write.len(), width * rows, "rows are of one width");
            }
            walk(&reader, writes, widths, 0..rows, &compute);
        });
    }
}

/// What is done to one row. Behind a pointer, called once a row, so that the walk and its threads are compiled once an arity.
type Compute<'a, R, const N: usize, const M: usize> = dyn Fn([&[R]; N], [&mut [R]; M]) + Sync + 'a;

fn walk<R: Real, const N: usize, const M: usize>(
    reader: &RowReader<'_, R, N>,
    writes: [ViewMut<'_>; M],
    widths: [usize; M],
    rows: std::ops::Range<usize>,
    compute: &Compute<'_, R, N, M>,
) {
    let widest = widths.into_iter().max().unwrap_or(0);
    if rows.len() > 1 && rows.len() * widest > 2 * GRAIN {
        let half = rows.len() / 2;
        let mut tails = Vec::with_capacity(M);
        let mut width = widths.iter();
        let heads = writes.map(|w| {
            let (head, tail) = w.split(half * width.next().expect("a width for each operand"));
            tails.push(tail);
            head
        });
        let tails: [ViewMut<'_>; M] = tails.try_into().expect("a tail for each head");
        let middle = rows.start + half;
        rayon::join(|| walk(reader, heads, widths, rows.start..middle, compute), || walk(reader, tails, widths, middle..rows.end, compute));
        return;
    }
    let mut writes = writes;
    let mut buffers = from_fn(|_| Vec::new());
    let mut results: [Vec<R>; M] = widths.map(|w| vec![R::ZERO; w]);
    for (i, row) in rows.enumerate() {
        let reads = reader.row(row, &mut buffers);
        let mut result = results.iter_mut();
        let mut width = widths.iter();
        let targets = writes.each_mut().map(|w| {
            let buffer = result.next().expect("a buffer for each operand");
            let width = *width.next().expect("a width for each operand");
            match w.stored() {
                Some(all) => &mut all[i * width..(i + 1) * width],
                None => buffer.as_mut_slice(),
            }
        });
        compute(reads, targets);
        for ((write, result), width) in writes.iter_mut().zip(&results).zip(widths) {
            if write.stored::<R>().is_none() {
                write.store(i * width, result);
            }
        }
    }
}
