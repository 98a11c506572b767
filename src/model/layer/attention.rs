//! Self-attention: a fused QKV linear, `scaled_dot_product_attention`, an output linear.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal, linear, scaled_dot_product};
use crate::meta::Shape;
use crate::model::field::{Field, Interval, Kind, SIZE, Values};
use crate::model::lowering::{Lowering, Numerics, Var};
use crate::ops::scaled_dot_product_attention::backend::{Backend, Call};
use crate::ops::{contiguous, split, transpose, view};

pub(super) const KIND: LayerKind = LayerKind {
    name: "attention",
    doc: "Self-attention over [length, features]: a fused QKV linear, scaled dot product, an output linear.",
    fields: &[
        Field::required("num_heads", SIZE, "Heads of the queries."),
        Field::optional("num_kv_heads", SIZE, "num_heads", "Heads of keys and values."),
        Field::bool("causal", false, "Whether a position sees only those before it."),
        Field::bool("bias", true, "Whether the two linears add a bias."),
        Field::number("dropout", Interval::UNIT, 0.0, "Probability of a zero in the attention weights, in training."),
        Field::optional(
            "backend",
            Kind::Choice(&["math", "efficient", "flash"]),
            "PyTorch's own choice",
            "How the scaled dot product is computed.",
        ),
    ],
    build: |values: &Values| {
        let num_heads = values.integer("num_heads");
        Rc::new(Attention {
            num_heads,
            num_kv_heads: values.optional_integer("num_kv_heads").unwrap_or(num_heads),
            causal: values.bool("causal"),
            bias: values.bool("bias"),
            dropout: values.number("dropout"),
            backend: values.optional_text("backend").and_then(Backend::named),
        })
    },
};

#[derive(Debug)]
struct Attention {
    num_heads: u64,
    num_kv_heads: u64,
    causal: bool,
    bias: bool,
    dropout: f64,
    /// Asked for by name.
    backend: Option<Backend>,
}

impl Attention {
    /// Widths of queries, keys and values beside each other.
    fn widths(&self, features: u64) -> [u64; 3] {
        let head = features / self.num_heads;
        [self.num_heads, self.num_kv_heads, self.num_kv_heads].map(|heads| heads.saturating_mul(head))
    }

    /// What PyTorch's choice of a backend depends on.
    fn call(&self, length: u64, features: u64, numerics: &Numerics, training: bool, gradients: bool) -> Call {
        Call {
            dtype: numerics.dtype_of_products(),
            capability: numerics.capability,
            heads: self.num_heads,
            kv_heads: self.num_kv_heads,
            length,
            head: features / self.num_heads,
            dropout: training && self.dropout > 0.0,
            gradients,
        }
    }

    /// FlashAttention and cuDNN scale what they keep by what is left, and so take no dropout that leaves nothing.
    fn refuse_dropout(&self, call: &Call, cx: &mut Check) {
        let backend = self.backend.unwrap_or_else(|| Backend::chosen(call));
        let words = match backend {
            Backend::Flash => "Expected p_dropout < 1.f to be true, but got false.",
            Backend::Cudnn => "cuDNN Frontend error: Dropout probability cannot be 1 as corresponding scale wont be well formed.",
            Backend::Efficient | Backend::Math => return,
        };
        if call.dropout && self.dropout as f32 >= 1.0 {
            let message = format!("attention: {} cannot drop every weight", backend.name());
            cx.mistake_in("dropout", message, Some(format!("PyTorch: `{words}`")));
        }
    }

    fn refuse_backend(&self, call: &Call, cx: &mut Check) {
        let Some(backend) = self.backend.filter(|b| !b.takes(call)) else { return };
        let Call { dtype, capability: (major, minor), heads, kv_heads, head, .. } = call;
        let shared = if kv_heads < heads { format!(" over {kv_heads}") } else { String::new() };
        let message = format!(
            "attention: {} has no kernel for {heads} heads{shared} of {head} features in {dtype} at compute capability {major}.{minor}",
            backend.name()
        );
        cx.mistake_in("backend", message, Some("leave `backend` out, and PyTorch's own choice counts".to_owned()));
    }
}

impl Layer for Attention {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        if !cx.floating("attention", input) || !cx.rank("attention", input, 2..=2, "[length, features]") {
            return None;
        }
        let features = input.sample[1];
        if !features.is_multiple_of(self.num_heads) {
            cx.mistake_in("num_heads", format!("attention: {features} features do not divide into {} heads", self.num_heads), None);
        }
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            let message = format!("attention: {} heads do not divide among {} key and value heads", self.num_heads, self.num_kv_heads);
            cx.mistake_in("num_kv_heads", message, None);
        }
        let call = self.call(input.sample[0], features, &cx.numerics, cx.training, cx.gradients);
        self.refuse_backend(&call, cx);
        self.refuse_dropout(&call, cx);
        let qkv = self.widths(features).into_iter().fold(0, u64::saturating_add);
        cx.tensor("a weight", &[qkv, features]);
        cx.output(input.with_sample([input.sample[0], qkv]))?;
        if self.backend.unwrap_or_else(|| Backend::chosen(&call)) == Backend::Math {
            cx.tensor("scores", &[input.batch.unwrap_or(1), self.num_heads, call.length, call.length]);
        }
        Some(input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let dims = cx.meta(input).shape.dims().to_vec();
        let &[batch, length, features] = &dims[..] else { unreachable!("attention was checked to have a batch of sequences") };
        let widths = self.widths(features);
        let qkv = cx.module("qkv", |cx| linear::lower(input, widths.iter().sum(), self.bias, cx));
        let parts = cx.run_all(split::rule::Split { sizes: widths.to_vec() }, &[qkv]);
        let head = features / self.num_heads;
        let heads: Vec<Var> = parts
            .into_iter()
            .zip(widths)
            .map(|(part, width)| {
                let apart = cx.run(view::rule::View::plain(shape([batch, length, width / head, head])), &[part]);
                let heads = cx.run(transpose::rule::Transpose { first: 1, second: 2 }, &[apart]);
                cx.drop(apart);
                cx.drop(part);
                heads
            })
            .collect();
        let settings = *cx.settings();
        let call = self.call(length, features, &settings.numerics, settings.training, settings.tape);
        let backend = self.backend.unwrap_or_else(|| Backend::chosen(&call));
        let dropout = if call.dropout { self.dropout } else { 0.0 };
        let attended = scaled_dot_product::lower([heads[0], heads[1], heads[2]], backend, self.causal, dropout, cx);
        let merged = cx.run(transpose::rule::Transpose { first: 1, second: 2 }, &[attended]);
        let rows = cx.run(contiguous::rule::Contiguous, &[merged]);
        let flat = cx.run(view::rule::View::plain(shape(dims.clone())), &[rows]);
        for var in [rows, merged, attended] {
            cx.drop(var);
        }
        let output = cx.module("proj", |cx| linear::lower(flat, features, self.bias, cx));
        // The function's variables die in the order in which they were first set.
        for var in [qkv].into_iter().chain(heads).chain([flat]) {
            cx.drop(var);
        }
        output
    }
}

fn shape(dims: impl Into<Vec<u64>>) -> Shape {
    Shape::new(dims).expect("as many elements as a tensor that exists")
}
