//! `embedding` keeps the indices. Its gradient is dense; with many indices PyTorch sorts them first, in scratch that is taken here too.
//! On every device each row of the gradient is the sum, in the order of places, of those that name it.

use super::rule::Embedding;
use crate::device::Operand;
use crate::device::cuda::{Arg, Grid, Kernel, Source};
use crate::device::host::{Host, Real, with_real};
use crate::exec::{Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::{Storage, Tensor};

fn lookup<R: Real>(host: &Host, weight: Operand<'_>, indices: Operand<'_>, out: Operand<'_>) {
    let width = weight.meta.shape.last() as usize;
    host.lend([weight, indices], [out], |[weight, indices], [mut out]| {
        let mut row = vec![R::ZERO; width];
        for (place, &index) in indices.indices().iter().enumerate() {
            weight.load(row_of(index, weight.len() / width) * width, &mut row);
            out.store(place * width, &row);
        }
    });
}

fn scatter<R: Real>(host: &Host, grad: Operand<'_>, indices: Operand<'_>, out: Operand<'_>) {
    let width = out.meta.shape.last() as usize;
    let mut sums = vec![R::ZERO; out.meta.numel() as usize];
    host.lend([grad, indices], [], |[grad, indices], []| {
        let mut row = vec![R::ZERO; width];
        for (place, &index) in indices.indices().iter().enumerate() {
            grad.load(place * width, &mut row);
            let start = row_of(index, sums.len() / width) * width;
            sums[start..start + width].iter_mut().zip(&row).for_each(|(sum, &x)| *sum += x);
        }
    });
    host.store(out, &sums);
}

fn row_of(index: i64, rows: usize) -> usize {
    usize::try_from(index).ok().filter(|&i| i < rows).expect("an index is one of the table's rows")
}

static SOURCE: Source = Source { name: "embedding", text: include_str!("kernel.cu") };

/// Scratch of PyTorch's sorted path, freed in reverse.
struct Sorted {
    slots: Vec<Storage>,
}

impl Sorted {
    fn take(&mut self, exec: &Exec, bytes: u64) -> Result<()> {
        self.slots.push(exec.scratch(bytes)?);
        Ok(())
    }
}

impl Drop for Sorted {
    fn drop(&mut self) {
        while self.slots.pop().is_some() {}
    }
}

impl Embedding {
    /// The gradient's memory, and the scratch in its place in line.
    fn allocate(exec: &Exec, weight: &TensorMeta, n: u64) -> Result<(Tensor, Sorted)> {
        let mut scratch = Sorted { slots: Vec::new() };
        if n <= 3072 {
            return Ok((exec.empty(weight.like())?, scratch));
        }
        let (major, minor) = exec.gpu().capability;
        let list = 8 * n;
        let aligned = |bytes: u64| bytes.div_ceil(256) * 256;
        // CUB keeps the state of each tile of a scan, and of a few more.
        let scan = |n: u64, tile: u64| 511 + aligned(16 * (32 + n.div_ceil(tile)));
        scratch.take(exec, list)?;
        scratch.take(exec, list)?;
        {
            let _numbers = exec.scratch(list)?;
            let tile = if major >= 9 {
                4608
            } else if major == 8 {
                3840
            } else {
                2816
            };
            // Keys and values a second time, 256 counters of 4 bytes a tile, and 256 of 8 for each of eight passes; the rest aligns.
            let _sort = exec.scratch(2 * aligned(list) + n.div_ceil(tile) * 1024 + 8 * 256 * 8 + 511)?;
        }
        let out = exec.empty(weight.like())?;
        scratch.take(exec, list)?;
        scratch.take(exec, 8)?;
        {
            let _positions = exec.scratch(list)?;
            let tile = match (major, minor) {
                (10.., _) => 3840,
                (9, _) => 4480,
                (8, 0) => 1792,
                _ => 320,
            };
            let _unique = exec.scratch(scan(n, tile))?;
        }
        let segments = n.min(weight.shape.dims()[0]);
        scratch.take(exec, 8 * segments)?;
        scratch.take(exec, 8 * segments)?;
        drop(exec.scratch(scan(segments, 896))?);
        let parts = segments + n / 10;
        scratch.take(exec, 8)?;
        scratch.take(exec, 8 * parts)?;
        let sums = weight.dtype.accumulator().bytes();
        if parts > 4 * segments && segments < 4 * u64::from(exec.gpu().multiprocessors) {
            scratch.take(exec, 8 * parts)?;
            if weight.dtype.is_half() {
                scratch.take(exec, sums * weight.numel())?;
            }
        } else {
            scratch.take(exec, parts * weight.shape.last() * sums)?;
        }
        Ok((out, scratch))
    }
}

impl OpKernel for Embedding {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (weight, indices) = (inputs[0], inputs[1]);
        let dims: Vec<u64> = indices.shape().dims().iter().copied().chain([weight.shape().last()]).collect();
        let shape = Shape::new(dims).expect("the output's shape was inferred before");
        let out = exec.empty(TensorMeta::contiguous(shape, weight.dtype()))?;
        exec.on_host(|host| with_real!([weight], R => lookup::<R>(host, weight.operand(), indices.operand(), out.operand())));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "embedding_forward", types: &[weight.dtype()] };
            let args = [weight, indices, &out].map(|t| t.operand().into());
            gpu.rows(kernel, indices.meta().numel(), weight.shape().last(), &args);
        });
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let grad = exec.contiguous(at.grad())?;
        let indices = at.saved(0);
        let (out, scratch) = Self::allocate(exec, &at.inputs[0], indices.meta().numel())?;
        exec.on_host(|host| with_real!([out], R => scatter::<R>(host, grad.operand(), indices.operand(), out.operand())));
        exec.on_cuda(|gpu| {
            let (rows, columns) = (indices.meta().numel(), out.shape().last());
            let types = [out.dtype()];
            let kernel = |entry| Kernel { source: &SOURCE, entry, types: &types };
            let [out, grad, indices] = [&out, &grad, indices].map(Tensor::operand);
            gpu.fill(out.address, 0, out.meta.bytes());
            if rows == 0 || columns == 0 {
                return;
            }
            let sizes = [Arg::from(rows), columns.into()];
            let tensors = [Arg::from(out), grad.into(), indices.into()];
            if let [first, next, ..] = &scratch.slots[..] {
                let (first, next) = (Arg::from(first.address()), Arg::from(next.address()));
                gpu.launch(kernel("embedding_links"), Grid::warps(rows), &[rows.into(), indices.into(), first, next]);
                gpu.rows(kernel("embedding_backward_linked"), rows, columns, &[&tensors[..], &[first, next]].concat());
            } else {
                gpu.launch(kernel("embedding_backward"), Grid::warps(rows), &[&sizes[..], &tensors[..]].concat());
            }
        });
        drop(scratch);
        drop(grad);
        Ok(vec![Some(out), None])
    }
}
