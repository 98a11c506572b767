//! `torch.nn.LayerNorm` over the last dimension.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::Init;
use crate::model::field::{Field, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::layer_norm;

pub(super) const KIND: LayerKind = LayerKind {
    name: "layer_norm",
    doc: "Normalises over the last dimension to mean 0 and variance 1, then scales and shifts.",
    fields: &[Field::bool("bias", true, "Whether it shifts.")],
    build: |values: &Values| Rc::new(LayerNorm { bias: values.bool("bias") }),
};

#[derive(Debug)]
struct LayerNorm {
    bias: bool,
}

impl Layer for LayerNorm {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        (cx.floating("layer_norm", input) && cx.rank("layer_norm", input, 1..=usize::MAX, "[…, features]")).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let features = cx.meta(input).shape.last();
        let weight = cx.parameter("weight", [features], Init::Constant(1.0));
        let bias = self.bias.then(|| cx.parameter("bias", [features], Init::Constant(0.0)));
        let inputs: Vec<Var> = [input, weight].into_iter().chain(bias).collect();
        cx.run_f32(layer_norm::rule::LayerNorm { bias: self.bias, eps: 1e-5 }, &inputs)
    }
}
