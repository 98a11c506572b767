//! The host device's handle: operands in, views out. It keeps nothing but the arena.

use std::cell::RefCell;
use std::rc::Rc;

use super::arena::Arena;
use super::element::Real;
use super::philox::Philox;
use super::view::{View, ViewMut, extent};
use crate::device::Operand;

/// Computes on the memory of an arena.
#[derive(Debug, Clone)]
pub struct Host {
    arena: Rc<RefCell<Arena>>,
}

impl Host {
    /// Computes on this memory, usually [`HostBacking::arena`](super::HostBacking::arena).
    #[must_use]
    pub fn new(arena: Rc<RefCell<Arena>>) -> Self {
        Self { arena }
    }

    /// Views of what is read and of what is written. An operand that is updated in place counts as written.
    ///
    /// # Panics
    /// Where an operand has no memory, or a written one overlaps another.
    pub fn lend<const N: usize, const M: usize, T>(
        &self,
        reads: [Operand<'_>; N],
        writes: [Operand<'_>; M],
        compute: impl FnOnce([View<'_>; N], [ViewMut<'_>; M]) -> T,
    ) -> T {
        self.arena.borrow_mut().lend(reads.map(extent), writes.map(extent), |shared, exclusive| {
            let mut metas = reads.iter().map(|r| r.meta).chain(writes.iter().map(|w| w.meta));
            let mut meta = || metas.next().expect("as many as there are slices");
            let reads = shared.map(|bytes| View::new(bytes, meta()));
            let writes = exclusive.map(|bytes| ViewMut::new(bytes, meta()));
            compute(reads, writes)
        })
    }

    /// Overwrites a contiguous tensor with stored bytes: a copy from the program's own memory.
    pub fn upload(&self, to: Operand<'_>, bytes: &[u8]) {
        self.lend([], [to], |[], [mut to]| to.copy_bytes(bytes));
    }

    /// Copies a contiguous tensor's stored bytes to the program's own memory.
    pub fn download(&self, from: Operand<'_>, bytes: &mut [u8]) {
        self.lend([from], [], |[from], []| bytes.copy_from_slice(from.raw()));
    }

    /// Overwrites a tensor with as many values, rounded to its type.
    ///
    /// # Panics
    /// There are more or fewer.
    pub fn store<R: Real>(&self, to: Operand<'_>, values: &[R]) {
        self.lend([], [to], |[], [mut to]| {
            assert_eq!(to.len(), values.len(), "a value for each element");
            to.store(0, values);
        });
    }

    /// All elements in row-major order.
    #[must_use]
    pub fn values<R: Real>(&self, of: Operand<'_>) -> Vec<R> {
        self.lend([of], [], |[of], []| {
            let mut values = vec![R::ZERO; of.len()];
            of.load(0, &mut values);
            values
        })
    }

    /// Overwrites every element.
    pub fn fill(&self, to: Operand<'_>, value: f64) {
        self.generate(to, |_, out: &mut [f64]| out.fill(value));
    }

    /// Overwrites every element with 1, with probability `probability`, or else 0.
    pub fn bernoulli(&self, to: Operand<'_>, probability: f64, philox: Philox) {
        self.generate(to, |start, out: &mut [f32]| {
            for (group, out) in (start as u64 / 4..).zip(out.chunks_mut(4)) {
                let uniform = philox.uniform(group);
                out.iter_mut().zip(uniform).for_each(|(o, u)| *o = if f64::from(u) < probability { 1.0 } else { 0.0 });
            }
        });
    }

    /// Copies elements, converting between types and layouts.
    pub fn copy(&self, from: Operand<'_>, to: Operand<'_>) {
        super::map!(self, [from] => [to], |x| [x]);
    }
}
