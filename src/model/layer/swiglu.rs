//! The gated feed-forward of Llama-like models: `down(silu(gate(x)) * up(x))`.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal, linear};
use crate::model::field::{Field, SIZE, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::{mul, silu};

pub(super) const KIND: LayerKind = LayerKind {
    name: "swiglu",
    doc: "`down(silu(gate(x)) * up(x))` of three linears.",
    fields: &[
        Field::required("hidden_features", SIZE, "Size of the last dimension inside."),
        Field::bool("bias", false, "Whether the linears add a bias."),
    ],
    build: |values: &Values| Rc::new(SwiGlu { hidden_features: values.integer("hidden_features"), bias: values.bool("bias") }),
};

#[derive(Debug)]
struct SwiGlu {
    hidden_features: u64,
    bias: bool,
}

impl Layer for SwiGlu {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        linear::check(input, self.hidden_features, "swiglu", cx)?;
        Some(input.clone())
    }

    /// Each intermediate value is a temporary of the expression, dropped once its only consumer has returned.
    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let features = cx.meta(input).shape.last();
        let gate = cx.module("gate", |cx| linear::lower(input, self.hidden_features, self.bias, cx));
        let activated = cx.run(silu::rule::Silu { inplace: false }, &[gate]);
        cx.drop(gate);
        let up = cx.module("up", |cx| linear::lower(input, self.hidden_features, self.bias, cx));
        let product = cx.run(mul::rule::Mul, &[activated, up]);
        cx.drop(up);
        cx.drop(activated);
        let output = cx.module("down", |cx| linear::lower(product, features, self.bias, cx));
        cx.drop(product);
        output
    }
}
