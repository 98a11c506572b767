//! Sums: of all elements, and of each column. Partial sums are cut by shape alone and combined pairwise, so the error grows with the
//! logarithm of the length and the result does not depend on the number of threads.

use std::array::from_fn;

use rayon::prelude::*;

use super::element::Real;
use super::lend::Host;
use super::map::computes_in;
use super::view::{View, usize_of};
use crate::device::Operand;
use crate::meta::{DType, Shape, TensorMeta};

/// Elements that one partial sum covers.
const BLOCK: usize = 512;
/// Independent sums within a block: as many as a processor adds at once.
const LANES: usize = 16;
/// Elements that one thread sums at a time.
const PART: usize = 32 * BLOCK;
/// What is smaller runs on one thread.
const GRAIN: usize = 32 * BLOCK;
/// Most partial sums of columns: each takes a row of memory.
const PARTS: usize = 64;

impl Host {
    /// The sum over the dimensions that `reduced` marks, times `factor`; `to` has an element for each place along the others.
    pub fn reduce(&self, from: Operand<'_>, reduced: &[bool], factor: f64, to: Operand<'_>) {
        match computes_in(&[from], &[to]) {
            DType::F64 => self.reduce_in::<f64>(from, reduced, factor, to),
            _ => self.reduce_in::<f32>(from, reduced, factor, to),
        }
    }

    fn reduce_in<R: Real>(&self, from: Operand<'_>, reduced: &[bool], factor: f64, to: Operand<'_>) {
        let meta = from.meta;
        let dims = meta.shape.dims().iter().zip(&meta.strides).zip(reduced);
        let (gone, kept): (Vec<_>, Vec<_>) = dims.map(|((&size, &step), &gone)| (size, step, gone)).partition(|d| d.2);
        let elements = |dims: &[(u64, u64, bool)]| dims.iter().map(|d| usize_of(d.0)).product::<usize>();
        let (gone_elements, kept_elements) = (elements(&gone), elements(&kept));
        let mut sums = if kept_elements == 1 {
            vec![self.sum([from], |[x]: [R; 1]| x)]
        } else {
            // Down the rows where what stays lies innermost, else along it.
            let down = reduced.is_sorted_by(|a, b| a >= b);
            let order = if down { [gone, kept] } else { [kept, gone] }.concat();
            let shape = Shape::new(order.iter().map(|d| d.0).collect::<Vec<_>>()).expect("as many elements as before");
            let strides = order.iter().map(|d| d.1).collect();
            let ordered = TensorMeta { shape, dtype: meta.dtype, strides };
            let sides = if down { [gone_elements, kept_elements, 1] } else { [1, kept_elements, gone_elements] };
            let [sums] = self.sums(sides, [from.with(&ordered)], |[x]: [R; 1]| [x]);
            sums
        };
        let factor = R::from_f64(factor);
        sums.iter_mut().for_each(|s| *s *= factor);
        self.store(to, &sums);
    }

    /// The sum of `formula(reads[..][i])` over all elements.
    ///
    /// # Panics
    /// The operands have different shapes.
    #[must_use]
    pub fn sum<R: Real, const N: usize>(&self, reads: [Operand<'_>; N], formula: impl Fn([R; N]) -> R + Sync) -> R {
        self.lend(reads, [], |reads, []| {
            let elements = reads[0].len();
            assert!(reads.iter().all(|r| r.len() == elements), "the operands of a sum have one shape");
            let formula = |x| [formula(x)];
            let part = |part: usize| stretch(&reads, part * PART, PART.min(elements - part * PART), &formula)[0];
            pairwise(&run(elements.div_ceil(PART), elements, &part))
        })
    }

    /// For tensors of shape (n, c, s): `M` sums for each of the c, over all n and s, of `formula(reads[..][i])`.
    ///
    /// # Panics
    /// An operand has another number of elements.
    #[must_use]
    pub fn sums<R: Real, const N: usize, const M: usize>(
        &self,
        [n, c, s]: [usize; 3],
        reads: [Operand<'_>; N],
        formula: impl Fn([R; N]) -> [R; M] + Sync,
    ) -> [Vec<R>; M] {
        self.lend(reads, [], |reads, []| {
            assert!(reads.iter().all(|r| r.len() == n * c * s), "the operands of a sum have one shape");
            if s == 1 { columns(&reads, n, c, &formula) } else { stretches(&reads, [n, c, s], &formula) }
        })
    }
}

/// Sums of columns: part of the rows after another into one row of sums.
fn columns<R: Real, const N: usize, const M: usize>(
    reads: &[View<'_>; N],
    rows: usize,
    width: usize,
    formula: &(impl Fn([R; N]) -> [R; M] + Sync),
) -> [Vec<R>; M] {
    let length = rows.div_ceil(PARTS).max(8);
    let partial = |part: usize| {
        let mut sums: [Vec<R>; M] = from_fn(|_| vec![R::ZERO; width]);
        let mut x = [[R::ZERO; BLOCK]; N];
        for row in part * length..rows.min((part + 1) * length) {
            for at in (0..width).step_by(BLOCK) {
                let length = BLOCK.min(width - at);
                load(reads, row * width + at, length, &mut x);
                let sums = sums.each_mut().map(|s| &mut s[at..at + length]);
                for i in 0..length.min(BLOCK) {
                    let terms = formula(from_fn(|k| x[k][i]));
                    for k in 0..M {
                        sums[k][i] += terms[k];
                    }
                }
            }
        }
        sums
    };
    combine(run(rows.div_ceil(length), rows * width, &partial)).unwrap_or_else(|| from_fn(|_| vec![R::ZERO; width]))
}

/// Sums over stretches of `s` elements, `n` of them for each of the `c`.
fn stretches<R: Real, const N: usize, const M: usize>(
    reads: &[View<'_>; N],
    [n, c, s]: [usize; 3],
    formula: &(impl Fn([R; N]) -> [R; M] + Sync),
) -> [Vec<R>; M] {
    let channel = |channel: usize| {
        let sums: Vec<[R; M]> = (0..n).map(|n| stretch(reads, (n * c + channel) * s, s, formula)).collect();
        from_fn(|k| pairwise(&sums.iter().map(|sums| sums[k]).collect::<Vec<R>>()))
    };
    let sums: Vec<[R; M]> = run(c, n * c * s, &channel);
    from_fn(|k| sums.iter().map(|sums| sums[k]).collect())
}

/// The sums of one stretch.
fn stretch<R: Real, const N: usize, const M: usize>(
    reads: &[View<'_>; N],
    start: usize,
    length: usize,
    formula: &impl Fn([R; N]) -> [R; M],
) -> [R; M] {
    let blocks = (0..length).step_by(BLOCK).map(|at| block(reads, start + at, BLOCK.min(length - at), formula));
    let sums: Vec<[R; M]> = blocks.collect();
    from_fn(|k| pairwise(&sums.iter().map(|sums| sums[k]).collect::<Vec<R>>()))
}

/// The sums of one block.
fn block<R: Real, const N: usize, const M: usize>(
    reads: &[View<'_>; N],
    start: usize,
    length: usize,
    formula: &impl Fn([R; N]) -> [R; M],
) -> [R; M] {
    let mut x = [[R::ZERO; BLOCK]; N];
    load(reads, start, length, &mut x);
    let mut lanes = [[R::ZERO; LANES]; M];
    let mut add = |i: usize, lane: usize| {
        let terms = formula(from_fn(|k| x[k][i]));
        for k in 0..M {
            lanes[k][lane] += terms[k];
        }
    };
    let length = length.min(BLOCK);
    let whole = length / LANES * LANES;
    for group in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            add(group + lane, lane);
        }
    }
    for i in whole..length {
        add(i, i - whole);
    }
    lanes.map(|lanes| pairwise(&lanes))
}

fn load<R: Real, const N: usize>(reads: &[View<'_>; N], start: usize, length: usize, x: &mut [[R; BLOCK]; N]) {
    for (x, read) in x.iter_mut().zip(reads) {
        read.load(start, &mut x[..length]);
    }
}

/// All parts' results in order, on several threads if there are enough elements.
/// The part is behind a pointer, so that the threads are compiled once a result type and not once a formula.
fn run<T: Send>(parts: usize, elements: usize, part: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    if elements <= GRAIN { (0..parts).map(part).collect() } else { (0..parts).into_par_iter().map(part).collect() }
}

/// Rows of sums added up, halves first.
fn combine<R: Real, const M: usize>(mut partials: Vec<[Vec<R>; M]>) -> Option<[Vec<R>; M]> {
    while partials.len() > 1 {
        let half = partials.len().div_ceil(2);
        let upper = partials.split_off(half);
        for (lower, upper) in partials.iter_mut().zip(upper) {
            for (l, u) in lower.iter_mut().flatten().zip(upper.iter().flatten()) {
                *l += *u;
            }
        }
    }
    partials.pop()
}

/// The sum of values, halves first.
pub(crate) fn pairwise<R: Real>(values: &[R]) -> R {
    match values {
        [] => R::ZERO,
        [one] => *one,
        _ => {
            let (left, right) = values.split_at(values.len() / 2);
            pairwise(left) + pairwise(right)
        }
    }
}

/// The sum of `term(i)` for `i` below `length`, as many at once as a processor adds.
#[inline]
pub(crate) fn sum<R: Real>(length: usize, term: impl Fn(usize) -> R) -> R {
    let mut lanes = [R::ZERO; LANES];
    let whole = length / LANES * LANES;
    for group in (0..whole).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(group + lane);
        }
    }
    for i in whole..length {
        lanes[i % LANES] += term(i);
    }
    pairwise(&lanes)
}
