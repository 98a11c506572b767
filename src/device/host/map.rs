//! Elementwise computation: any number of operands of one shape, each with its own strides and element type.
//!
//! Operands are brought block by block into buffers of the computing type, so that one formula, compiled for f32 and f64, serves
//! every element type and layout; the buffers stay in the first-level cache.

use std::array::from_fn;

use super::element::Real;
use super::lend::Host;
use super::view::{View, ViewMut};
use crate::device::{Operand, Spread};
use crate::meta::{DType, Shape, TensorMeta};

/// Elements brought in at a time.
const BLOCK: usize = 512;
/// What is smaller runs on one thread.
const GRAIN: usize = 32 * BLOCK;

impl Host {
    /// `writes[..][i] = formula(reads[..][i])` for every element; what is read is broadcast to what is written. What is read at the
    /// very place that is written is updated in place.
    ///
    /// # Panics
    /// Where shapes do not go together, or a written operand overlaps another that is not the same.
    pub fn map<R: Real, const N: usize, const M: usize>(
        &self,
        reads: [Operand<'_>; N],
        writes: [Operand<'_>; M],
        formula: impl Fn([R; N]) -> [R; M] + Sync,
    ) {
        let same = |r: &Operand<'_>| writes.iter().position(|w| w.address == r.address && w.meta == r.meta && r.address != 0);
        let places: [Option<usize>; N] = reads.each_ref().map(same);
        let shape = &writes[0].meta.shape;
        let spread: [Option<Spread>; N] = reads.map(|r| (r.meta.shape != *shape).then(|| r.spread(shape)));
        let nothing = TensorMeta::contiguous(Shape::new([0]).expect("no elements"), DType::U8);
        let apart: [Operand<'_>; N] = from_fn(|k| match (&places[k], &spread[k]) {
            (Some(_), _) => Operand { address: 0, meta: &nothing },
            (None, Some(spread)) => spread.operand(),
            (None, None) => reads[k],
        });
        self.lend(apart, writes, |views, writes| {
            let mut views = views.into_iter().zip(places);
            let sources = from_fn(|_| match views.next().expect("a view for each operand") {
                (_, Some(k)) => Source::Place(k),
                (view, None) => Source::View(view),
            });
            run(&sources, writes, formula);
        });
    }

    /// Fills a tensor from element numbers: `fill(start, out)` gives the elements from `start` on, `start` a multiple of 4.
    pub fn generate<R: Real>(&self, to: Operand<'_>, fill: impl Fn(usize, &mut [R]) + Sync) {
        self.lend([], [to], |[], to| {
            walk::<R, 0, 1>(&[], to, 0, &|start, length, _, [y]| fill(start, &mut y[..length]));
        });
    }
}

/// [`Host::map`] over views: for operands some of which are the program's own.
pub(crate) fn map_views<R: Real, const N: usize, const M: usize>(
    reads: [View<'_>; N],
    writes: [ViewMut<'_>; M],
    formula: impl Fn([R; N]) -> [R; M] + Sync,
) {
    run(&reads.map(Source::View), writes, formula);
}

fn run<R: Real, const N: usize, const M: usize>(
    sources: &[Source<'_>; N],
    writes: [ViewMut<'_>; M],
    formula: impl Fn([R; N]) -> [R; M] + Sync,
) {
    let elements = writes[0].len();
    assert!(writes.iter().all(|w| w.len() == elements), "what an elementwise computation writes has one shape");
    let fits = |s: &Source<'_>| matches!(s, Source::View(v) if v.len() == elements) || matches!(s, Source::Place(_));
    assert!(sources.iter().all(fits), "what an elementwise computation reads has the shape of what it writes");
    walk(sources, writes, 0, &|_, length, x, y| each(length, x, y, &formula));
}

/// Where an operand's elements come from.
enum Source<'a> {
    View(View<'a>),
    /// What is about to be overwritten.
    Place(usize),
}

/// The formula over the first `length` elements of one block. Whole arrays, so that the compiler sees that nothing overlaps and
/// nothing is out of bounds.
#[inline]
fn each<R: Real, const N: usize, const M: usize>(
    length: usize,
    x: &[[R; BLOCK]; N],
    y: &mut [[R; BLOCK]; M],
    formula: impl Fn([R; N]) -> [R; M],
) {
    for i in 0..length.min(BLOCK) {
        let new = formula(from_fn(|k| x[k][i]));
        for k in 0..M {
            y[k][i] = new[k];
        }
    }
}

/// What is done to one block: its start, its length, what is read, what is written. Behind a pointer, called once a block, so that
/// the walk and its threads are compiled once an arity and not once a formula.
type Block<'a, R, const N: usize, const M: usize> = dyn Fn(usize, usize, &[[R; BLOCK]; N], &mut [[R; BLOCK]; M]) + Sync + 'a;

/// Applies `block(start, length, reads, writes)` to all blocks, on several threads where it pays. `start` is where `writes` begin.
fn walk<R: Real, const N: usize, const M: usize>(
    sources: &[Source<'_>; N],
    writes: [ViewMut<'_>; M],
    start: usize,
    block: &Block<'_, R, N, M>,
) {
    let elements = writes[0].len();
    if elements > GRAIN && writes.iter().all(ViewMut::is_dense) {
        let half = (elements / 2).next_multiple_of(BLOCK);
        let (head, tail) = split(writes, half);
        rayon::join(|| walk(sources, head, start, block), || walk(sources, tail, start + half, block));
        return;
    }
    let mut writes = writes;
    let mut x = [[R::ZERO; BLOCK]; N];
    let mut y = [[R::ZERO; BLOCK]; M];
    for at in (0..elements).step_by(BLOCK) {
        let length = BLOCK.min(elements - at);
        for (x, source) in x.iter_mut().zip(sources) {
            match source {
                Source::View(view) => view.load(start + at, &mut x[..length]),
                Source::Place(k) => writes[*k].load(at, &mut x[..length]),
            }
        }
        block(start + at, length, &x, &mut y);
        for (y, write) in y.iter().zip(&mut writes) {
            write.store(at, &y[..length]);
        }
    }
}

/// Every tensor cut at the same element.
fn split<'a, const M: usize>(tensors: [ViewMut<'a>; M], at: usize) -> ([ViewMut<'a>; M], [ViewMut<'a>; M]) {
    let mut tails = Vec::with_capacity(M);
    let heads = tensors.map(|t| {
        let (head, tail) = t.split(at);
        tails.push(tail);
        head
    });
    (heads, tails.try_into().expect("a tail for each head"))
}

/// `map!(host, [x, y] => [z], |x, y| [x + y])`: [`Host::map`] over tensors, the formula compiled for both computing types.
/// A `(c = value, ..)` in front makes f64 settings constants of the computing type.
macro_rules! map {
    ($host:expr, $(($($c:ident = $value:expr),+),)? [$($read:expr),*] => [$($write:expr),+], |$($x:ident),*| $formula:expr) => {{
        // A match rather than a let: temporaries among the operands live until its end.
        match ([$($read.operand()),*], [$($write.operand()),+]) {
            (reads, writes) if $crate::device::host::computes_in(&reads, &writes) == $crate::meta::DType::F64 => {
                $($(let $c: f64 = $value;)+)?
                $host.map(reads, writes, $crate::device::host::in_f64(|[$($x),*]| $formula));
            }
            (reads, writes) => {
                $($(let $c = ($value) as f32;)+)?
                $host.map(reads, writes, $crate::device::host::in_f32(|[$($x),*]| $formula));
            }
        }
    }};
}
pub(crate) use map;

/// Tells the compiler what a formula computes in.
pub(crate) fn in_f32<const N: usize, const M: usize, F: Fn([f32; N]) -> [f32; M]>(formula: F) -> F {
    formula
}

/// Tells the compiler what a formula computes in.
pub(crate) fn in_f64<const N: usize, const M: usize, F: Fn([f64; N]) -> [f64; M]>(formula: F) -> F {
    formula
}

/// `with_real!([x, y], R => f::<R>(..))`: runs the expression with `R` the type that computing over these tensors happens in.
macro_rules! with_real {
    ([$($t:expr),+], $R:ident => $run:expr) => {
        match $crate::device::host::computes_in(&[$($t.operand()),+], &[]) {
            $crate::meta::DType::F64 => {
                type $R = f64;
                $run
            }
            _ => {
                type $R = f32;
                $run
            }
        }
    };
}
pub(crate) use with_real;

/// What computing over these operands happens in: f64 where one of them holds more than an f32 can, else f32.
pub(crate) fn computes_in(reads: &[Operand<'_>], writes: &[Operand<'_>]) -> DType {
    let wide = |o: &Operand<'_>| matches!(o.meta.dtype, DType::F64 | DType::I64);
    if reads.iter().chain(writes).any(wide) { DType::F64 } else { DType::F32 }
}
