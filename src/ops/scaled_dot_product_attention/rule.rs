//! What `scaled_dot_product_attention` does to memory, by implementation.

use super::backend::Backend;
use super::buffers;
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError, Slot};
use crate::scratch::{Attention, Request};

/// `softmax(q · kᵀ / √d) · v`, never written out. Inputs: q (batch, heads, length, features), k and v (batch, kv_heads, length, features),
/// whose heads divide q's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaledDotProductAttention {
    /// Whose buffers it takes: any but [`Backend::Math`].
    pub backend: Backend,
    /// A position sees only those before it.
    pub causal: bool,
    /// Probability of a zero in the weights.
    pub dropout: f64,
    /// Features of a head before it was filled up: scores are divided by their root.
    pub features: u64,
}

/// Sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) dtype: DType,
    pub(super) batch: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) length: u64,
    pub(super) head: u64,
}

impl Problem {
    fn of(inputs: &[TensorMeta]) -> Self {
        let (q, k) = (inputs[0].shape.dims(), inputs[1].shape.dims());
        Self { dtype: inputs[0].dtype, batch: q[0], heads: q[1], kv_heads: k[1], length: q[2], head: q[3] }
    }

    /// A figure in f32 for each row of each head.
    fn row_figures(&self) -> u64 {
        self.batch * self.heads * self.length * 4
    }
}

/// How memory-efficient attention lays out what it makes: heads beside each other, as in a linear layer's output.
fn by_positions(shape: &Shape, dtype: DType) -> TensorMeta {
    let d = shape.dims();
    let rows = Shape::new([d[0], d[2], d[1], d[3]]).expect("the same number of elements");
    TensorMeta::contiguous(rows, dtype).transposed(1, 2)
}

impl ScaledDotProductAttention {
    fn output(&self, q: &TensorMeta) -> TensorMeta {
        if self.backend == Backend::Efficient { by_positions(&q.shape, q.dtype) } else { q.dense() }
    }

    fn workspace(&self, cx: RuleContext<'_>, p: &Problem, backward: bool) -> u64 {
        let Problem { dtype, batch, heads, kv_heads, length, head } = *p;
        let (causal, dropout) = (self.causal, self.dropout > 0.0);
        cx.scratch.bytes(cx.gpu, &Request::Attention(Attention { backward, dtype, batch, heads, kv_heads, length, head, causal, dropout }))
    }
}

impl OpRule for ScaledDotProductAttention {
    fn name(&self) -> &'static str {
        "scaled_dot_product_attention"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let refused = || ShapeError {
            message: format!("attention of q {} does not go with k {} and v {}", inputs[0].shape, inputs[1].shape, inputs[2].shape),
        };
        let (&[b, h, t, d], &[b_too, kv, t_too, d_too]) = (inputs[0].shape.dims(), inputs[1].shape.dims()) else { return Err(refused()) };
        if (b, t, d) != (b_too, t_too, d_too) || inputs[1].shape != inputs[2].shape || !h.is_multiple_of(kv.max(1)) {
            return Err(refused());
        }
        Ok(vec![self.output(&inputs[0])])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let (p, out) = (Problem::of(inputs), self.output(&inputs[0]));
        let needed = needs.contains(&true);
        let mut r = Recipe::new();
        // By name: `key`, `query`, `value`.
        [1, 0, 2].into_iter().for_each(|i| r.keep(Saved::Input(i), needed));
        let keep = |r: &mut Recipe, log_sums: Option<Slot>, others: &[Slot]| {
            if let Some(slot) = log_sums {
                r.keep_or_free(slot, needed);
            }
            r.keep(Saved::Output(0), needed);
            others.iter().for_each(|&slot| r.keep_or_free(slot, needed));
        };
        let slot = match self.backend {
            Backend::Cudnn => {
                let (seed, offset) = (r.alloc(8), r.alloc(8));
                let slot = r.tensor(&out);
                let log_sums = needed.then(|| r.alloc(p.row_figures()));
                r.temporary(self.workspace(cx, &p, false));
                keep(&mut r, log_sums, &[seed, offset]);
                slot
            }
            Backend::Flash => {
                let slot = r.tensor(&out);
                let log_sums = r.alloc(p.row_figures());
                let dropout = self.dropout > 0.0;
                let parts = buffers::flash_parts(&p, buffers::flash_splits(cx.gpu, &p, dropout)).map(|bytes| r.alloc(bytes));
                // Seed and offset of the random numbers, and 8 bytes that are not used.
                let (state, unused) = (r.alloc(16), r.alloc(8));
                let state = if dropout {
                    let drawn = r.alloc(16);
                    r.free(state);
                    drawn
                } else {
                    state
                };
                parts.into_iter().for_each(|part| r.free(part));
                keep(&mut r, Some(log_sums), &[state, unused]);
                slot
            }
            Backend::Efficient | Backend::Math => {
                let slot = r.tensor(&out);
                let log_sums = needed.then(|| r.alloc(buffers::efficient_log_sums(&p)));
                r.temporary(buffers::efficient_outputs(&p));
                keep(&mut r, log_sums, &[]);
                slot
            }
        };
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], _: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(incoming) = &grads[0] else { return r.backward(vec![Gradient::None; 3]) };
        let (p, out) = (Problem::of(inputs), self.output(&inputs[0]));
        // FlashAttention reads rows of heads beside each other.
        let flash = self.backend == Backend::Flash;
        let unreadable = [incoming, &out].into_iter().filter(|t| flash && !t.transposed(1, 2).is_contiguous());
        let copies: Vec<Slot> = unreadable.map(|t| r.tensor(t)).collect();
        let layouts: Vec<TensorMeta> =
            inputs.iter().map(|i| if self.backend == Backend::Efficient { by_positions(&i.shape, i.dtype) } else { i.dense() }).collect();
        let slots: Vec<Slot> = layouts.iter().map(|m| r.tensor(m)).collect();
        match self.backend {
            Backend::Cudnn => r.temporary(self.workspace(cx, &p, true)),
            Backend::Flash => {
                let mut scratch = buffers::flash_backward(&p).map(|bytes| r.alloc(bytes)).to_vec();
                if p.kv_heads < p.heads {
                    // Keys' and values' gradients for each of the queries' heads.
                    scratch.extend([r.tensor(&out), r.tensor(&out)]);
                }
                scratch.into_iter().rev().for_each(|slot| r.free(slot));
            }
            Backend::Efficient | Backend::Math => {
                let sums = row_sums(&mut r, &p, &out);
                let workspace = r.alloc(buffers::efficient_backward(cx.gpu, &p));
                r.free(sums);
                r.free(workspace);
            }
        }
        copies.into_iter().rev().for_each(|copy| r.free(copy));
        r.backward(slots.into_iter().zip(layouts).map(|(slot, meta)| Gradient::New(slot, meta)).collect())
    }
}

/// The sum of gradient times output of each row: half types have a kernel for it, f32 has operators, which leave it in the order of
/// positions.
fn row_sums(r: &mut Recipe, p: &Problem, out: &TensorMeta) -> Slot {
    if p.dtype.is_half() {
        return r.alloc(p.row_figures());
    }
    let product = r.tensor(out);
    let sums = r.alloc(p.row_figures());
    if p.heads == 1 || p.length == 1 {
        r.free(product);
        return sums;
    }
    let ordered = r.alloc(p.row_figures());
    r.free(sums);
    r.free(product);
    ordered
}
