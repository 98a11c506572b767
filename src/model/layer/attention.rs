//! Self-attention: a fused QKV linear, `scaled_dot_product_attention`, an output linear.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, Interval, Kind, SIZE, Values};

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
        Rc::new(Attention { num_heads, num_kv_heads: values.optional_integer("num_kv_heads").unwrap_or(num_heads) })
    },
    has_operators: false,
};

#[derive(Debug)]
struct Attention {
    num_heads: u64,
    num_kv_heads: u64,
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
        let head = features / self.num_heads;
        let heads = self.num_kv_heads.checked_mul(2).and_then(|n| n.checked_add(self.num_heads)).unwrap_or(u64::MAX);
        let qkv = heads.saturating_mul(head);
        cx.tensor("a weight", &[qkv, features]);
        cx.output(input.with_sample([input.sample[0], qkv]))?;
        Some(input.clone())
    }
}
