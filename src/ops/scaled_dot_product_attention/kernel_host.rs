//! Attention on the host: head by head, a row of scores at a time. Nothing of the size of all scores exists.

use rayon::prelude::*;

use crate::device::Operand;
use crate::device::host::{Host, Philox, Real, View, sum};
use crate::meta::DType;

/// What the formula depends on besides tensors.
pub(super) struct Settings {
    pub(super) heads: usize,
    /// Heads of the queries that share one of keys and values.
    pub(super) group: usize,
    pub(super) length: usize,
    pub(super) head: usize,
    pub(super) scale: f64,
    pub(super) causal: bool,
    /// Probability that a weight is kept.
    pub(super) keep: f64,
    /// Where weights are dropped.
    pub(super) philox: Option<Philox>,
}

impl Settings {
    /// How many keys the query at `row` sees.
    fn seen(&self, row: usize) -> usize {
        if self.causal { row + 1 } else { self.length }
    }

    /// What the weights of a row are multiplied by.
    fn noise<R: Real>(&self, head: usize, row: usize, out: &mut [R]) {
        let Some(philox) = self.philox else { return out.fill(R::ONE) };
        let first = (head * self.length + row) * self.length;
        let scale = R::from_f64(1.0 / self.keep);
        for (i, out) in out.iter_mut().enumerate() {
            let element = (first + i) as u64;
            let uniform = philox.uniform(element / 4)[(element % 4) as usize];
            *out = if f64::from(uniform) < self.keep { scale } else { R::ZERO };
        }
    }

    fn matrix<R: Real>(&self, view: &View<'_>, head: usize) -> Vec<R> {
        let mut values = vec![R::ZERO; self.length * self.head];
        view.load(head * values.len(), &mut values);
        values
    }

    /// Weights of one row before dropout, given the logarithm of their sum, or with it.
    fn weights<R: Real>(&self, q: &[R], k: &[R], weights: &mut [R]) {
        let scale = R::from_f64(self.scale);
        for (w, k) in weights.iter_mut().zip(k.chunks_exact(self.head)) {
            *w = scale * sum(self.head, |d| q[d] * k[d]);
        }
    }
}

/// The output, and for each row the logarithm of the sum of its exponentials.
pub(super) fn forward(host: &Host, s: &Settings, [q, k, v]: [Operand<'_>; 3], out: Operand<'_>, log_sums: Option<Operand<'_>>) {
    if out.meta.dtype == DType::F64 {
        compute::<f64>(host, s, [q, k, v], out, log_sums)
    } else {
        compute::<f32>(host, s, [q, k, v], out, log_sums)
    }
}

fn compute<R: Real>(host: &Host, s: &Settings, qkv: [Operand<'_>; 3], out: Operand<'_>, log_sums: Option<Operand<'_>>) {
    let heads = qkv[0].meta.shape.dims()[0] as usize * s.heads;
    let results: Vec<(Vec<R>, Vec<R>)> = host.lend(qkv, [], |[q, k, v], []| {
        (0..heads)
            .into_par_iter()
            .map(|h| head(s, h, [&s.matrix::<R>(&q, h), &s.matrix(&k, h / s.group), &s.matrix(&v, h / s.group)]))
            .collect()
    });
    host.lend([], [out], |[], [mut out]| {
        for (h, (values, _)) in results.iter().enumerate() {
            out.store(h * values.len(), values);
        }
    });
    if let Some(to) = log_sums {
        let pitch = to.meta.shape.last() as usize;
        host.lend([], [to], |[], [mut to]| {
            for (h, (_, sums)) in results.iter().enumerate() {
                to.store(h * pitch, sums);
            }
        });
    }
}

fn head<R: Real>(s: &Settings, number: usize, [q, k, v]: [&[R]; 3]) -> (Vec<R>, Vec<R>) {
    let mut out = vec![R::ZERO; s.length * s.head];
    let mut sums = vec![R::ZERO; s.length];
    let (mut weights, mut noise) = (vec![R::ZERO; s.length], vec![R::ONE; s.length]);
    for (row, (out, total)) in out.chunks_exact_mut(s.head).zip(&mut sums).enumerate() {
        let weights = &mut weights[..s.seen(row)];
        s.weights(&q[row * s.head..(row + 1) * s.head], k, weights);
        let most = weights.iter().fold(R::LOWEST, |most, &w| if w > most { w } else { most });
        weights.iter_mut().for_each(|w| *w = (*w - most).exp());
        let all = sum(weights.len(), |i| weights[i]);
        *total = most + all.ln();
        let noise = &mut noise[..weights.len()];
        s.noise(number, row, noise);
        for ((&w, &n), v) in weights.iter().zip(&*noise).zip(v.chunks_exact(s.head)) {
            let w = w * n / all;
            out.iter_mut().zip(v).for_each(|(o, &v)| *o += w * v);
        }
    }
    (out, sums)
}

/// Gradients of q, k and v. Reads: q, k, v, the incoming gradient, the output and the logarithms of sums.
pub(super) fn backward(host: &Host, s: &Settings, reads: [Operand<'_>; 6], to: [Operand<'_>; 3]) {
    if to[0].meta.dtype == DType::F64 { differentiate::<f64>(host, s, reads, to) } else { differentiate::<f32>(host, s, reads, to) }
}

/// Gradients of the queries of each head, and of the keys and values that a group of heads shares.
type GroupGradients<R> = (Vec<Vec<R>>, Vec<R>, Vec<R>);

fn differentiate<R: Real>(host: &Host, s: &Settings, reads: [Operand<'_>; 6], to: [Operand<'_>; 3]) {
    let heads = reads[0].meta.shape.dims()[0] as usize * s.heads;
    let pitch = reads[5].meta.shape.last() as usize;
    // Of queries for each head, of keys and values for each that is shared.
    let groups: Vec<GroupGradients<R>> = host.lend(reads, [], |[q, k, v, grad, out, sums], []| {
        let group = |g: usize| {
            let (k, v): (Vec<R>, Vec<R>) = (s.matrix(&k, g), s.matrix(&v, g));
            let (mut dk, mut dv) = (vec![R::ZERO; k.len()], vec![R::ZERO; v.len()]);
            let of_queries = (g * s.group..(g + 1) * s.group).map(|h| {
                let mut log_sums = vec![R::ZERO; s.length];
                sums.load(h * pitch, &mut log_sums);
                let head = Head { q: s.matrix(&q, h), k: &k, v: &v, grad: s.matrix(&grad, h), out: s.matrix(&out, h), log_sums };
                head.backward(s, h, &mut dk, &mut dv)
            });
            (of_queries.collect(), dk, dv)
        };
        (0..heads / s.group).into_par_iter().map(group).collect()
    });
    host.lend([], to, |[], [mut dq, mut dk, mut dv]| {
        let size = s.length * s.head;
        for (g, (of_queries, of_keys, of_values)) in groups.iter().enumerate() {
            for (i, of_query) in of_queries.iter().enumerate() {
                dq.store((g * s.group + i) * size, of_query);
            }
            dk.store(g * size, of_keys);
            dv.store(g * size, of_values);
        }
    });
}

struct Head<'a, R> {
    q: Vec<R>,
    k: &'a [R],
    v: &'a [R],
    grad: Vec<R>,
    out: Vec<R>,
    log_sums: Vec<R>,
}

impl<R: Real> Head<'_, R> {
    /// The queries' gradient; keys' and values' are added to.
    fn backward(&self, s: &Settings, number: usize, dk: &mut [R], dv: &mut [R]) -> Vec<R> {
        let d = s.head;
        let scale = R::from_f64(s.scale);
        let mut dq = vec![R::ZERO; s.length * d];
        let (mut weights, mut noise) = (vec![R::ZERO; s.length], vec![R::ONE; s.length]);
        for row in 0..s.length {
            let here = row * d..(row + 1) * d;
            let (q, grad, out) = (&self.q[here.clone()], &self.grad[here.clone()], &self.out[here.clone()]);
            let weights = &mut weights[..s.seen(row)];
            s.weights(q, self.k, weights);
            let noise = &mut noise[..weights.len()];
            s.noise(number, row, noise);
            let share = sum(d, |i| grad[i] * out[i]);
            let dq = &mut dq[here];
            for (key, (&w, &n)) in weights.iter().zip(&*noise).enumerate() {
                let there = key * d..(key + 1) * d;
                let w = (w - self.log_sums[row]).exp();
                let of_weight = n * sum(d, |i| grad[i] * self.v[key * d + i]);
                let of_score = scale * w * (of_weight - share);
                for (i, at) in there.enumerate() {
                    dv[at] += w * n * grad[i];
                    dk[at] += of_score * q[i];
                    dq[i] += of_score * self.k[at];
                }
            }
        }
        dq
    }
}
