//! `scaled_dot_product_attention` in operators: one fused kernel, or what PyTorch's `_scaled_dot_product_attention_math` writes out.
//!
//! Every value is a variable or a temporary of PyTorch's function, and is dropped where that ends.

use crate::meta::{DType, Shape};
use crate::model::lowering::{Lowering, Var};
use crate::ops::scaled_dot_product_attention::backend::Backend;
use crate::ops::scaled_dot_product_attention::rule::ScaledDotProductAttention;
use crate::ops::{
    add::rule::Add, bmm::rule::Bmm, causal_mask::rule::CausalMask, contiguous::rule::Contiguous, dropout::rule::Dropout,
    expand::rule::Expand, mul_scalar::rule::MulScalar, pad_last::rule::PadLast, slice::rule::Slice, softmax::rule::Softmax,
    transpose::rule::Transpose, view::rule::View,
};

/// Queries, keys and values of shape (batch, heads, length, features) to outputs of the queries' shape.
pub(super) fn lower(qkv: [Var; 3], backend: Backend, causal: bool, dropout: f64, cx: &mut Lowering) -> Var {
    if backend == Backend::Math {
        return written_out(qkv, causal, dropout, cx);
    }
    let features = cx.meta(qkv[0]).shape.last();
    let op = ScaledDotProductAttention { backend, causal, dropout, features };
    if backend != Backend::Flash || features.is_multiple_of(8) {
        return cx.run(op, &qkv);
    }
    // FlashAttention reads eight features at once: heads are filled up, and the output is cut.
    let padded = qkv.map(|x| cx.run(PadLast { size: features.next_multiple_of(8) }, &[x]));
    let whole = cx.run(op, &padded);
    let cut = cx.run(Slice { dim: 3, length: features }, &[whole]);
    for var in [whole, padded[2], padded[1], padded[0]] {
        cx.drop(var);
    }
    cut
}

fn written_out(qkv: [Var; 3], causal: bool, dropout: f64, cx: &mut Lowering) -> Var {
    let dtype = cx.meta(qkv[0]).dtype;
    let dims = cx.meta(qkv[0]).shape.dims().to_vec();
    let (heads, length, features) = (dims[1], dims[2], dims[3]);
    let half = dtype.is_half();
    // Half types are computed in f32.
    let [q, k, v] = if half { qkv.map(|x| cx.cast(x, DType::F32)) } else { qkv };
    // Both sides take the root of the scale, for the sake of precision.
    let factor = 1.0 / (features as f64).sqrt().sqrt();
    let scaled = cx.run(MulScalar { factor }, &[q]);
    let computing = cx.meta(q).dtype;
    let mask = causal.then(|| cx.run(CausalMask { length, dtype: computing }, &[]));
    let shared = cx.meta(k).shape.dims()[1] < heads;
    let [keys, values] = if shared { [k, v].map(|x| repeated(x, heads, cx)) } else { [k, v] };
    let flipped = cx.run(Transpose { first: 2, second: 3 }, &[keys]);
    let turned = cx.run(MulScalar { factor }, &[flipped]);
    cx.drop(flipped);
    let scores = matmul(scaled, turned, cx);
    cx.drop(turned);
    if let Some(mask) = mask {
        cx.update(Add { inplace: true }, &[scores, mask]);
    }
    let mut weights = cx.run(Softmax { to_f32: false, safe: true }, &[scores]);
    cx.drop(scores);
    if dropout > 0.0 {
        let dropped = cx.run(Dropout { p: dropout, inplace: false, training: true }, &[weights]);
        cx.drop(weights);
        weights = dropped;
    }
    // The weights are returned too, in the type that came in.
    let returned = half.then(|| cx.cast(weights, dtype));
    let mut output = matmul(weights, values, cx);
    if half {
        let narrow = cx.cast(output, dtype);
        cx.drop(output);
        output = narrow;
    }
    // The function's variables die in the reverse order of their making, and what it returns beside the output in the end.
    let (inner, returned) = returned.map_or((None, weights), |returned| (Some(weights), returned));
    if let Some(weights) = inner {
        cx.drop(weights);
    }
    if shared {
        cx.drop(values);
        cx.drop(keys);
    }
    cx.drop(scaled);
    if let Some(mask) = mask {
        cx.drop(mask);
    }
    if half {
        [v, k, q].into_iter().for_each(|x| cx.drop(x));
    }
    cx.drop(returned);
    output
}

/// `matmul` of two tensors of four dimensions: products of a batch of matrices.
fn matmul(left: Var, right: Var, cx: &mut Lowering) -> Var {
    let (l, r) = (cx.meta(left).shape.dims().to_vec(), cx.meta(right).shape.dims().to_vec());
    let left = cx.reshape(left, shape(&[l[0] * l[1], l[2], l[3]]));
    let right = cx.reshape(right, shape(&[r[0] * r[1], r[2], r[3]]));
    let product = cx.run(Bmm, &[left, right]);
    cx.drop(right);
    cx.drop(left);
    let apart = cx.run(View { shape: shape(&[l[0], l[1], l[2], r[3]]), hidden: true }, &[product]);
    cx.drop(product);
    apart
}

/// `repeat_interleave` over heads: each of the shared ones as often as heads share it.
fn repeated(x: Var, heads: u64, cx: &mut Lowering) -> Var {
    let d = cx.meta(x).shape.dims().to_vec();
    let apart = cx.run(View::plain(shape(&[d[0], d[1], 1, d[2], d[3]])), &[x]);
    let spread = cx.run(Expand { shape: shape(&[d[0], d[1], heads / d[1], d[2], d[3]]) }, &[apart]);
    cx.drop(apart);
    let copy = cx.run(Contiguous, &[spread]);
    cx.drop(spread);
    let whole = cx.run(View::plain(shape(&[d[0], heads, d[2], d[3]])), &[copy]);
    cx.drop(copy);
    whole
}

fn shape(dims: &[u64]) -> Shape {
    Shape::new(dims).expect("scores were checked to be countable")
}
