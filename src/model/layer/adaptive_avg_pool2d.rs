//! `torch.nn.AdaptiveAvgPool2d`.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, PAIR, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::adaptive_avg_pool2d;

pub(super) const KIND: LayerKind = LayerKind {
    name: "adaptive_avg_pool2d",
    doc: "Means over windows of [channels, height, width] chosen so that the output has the given size.",
    fields: &[Field::required("output_size", PAIR, "Size of the output: n or [height, width].")],
    build: |values: &Values| Rc::new(AdaptiveAvgPool2d { output: values.pair("output_size") }),
};

#[derive(Debug)]
struct AdaptiveAvgPool2d {
    output: [u64; 2],
}

impl Layer for AdaptiveAvgPool2d {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        let name = "adaptive_avg_pool2d";
        if !cx.floating(name, input) || !cx.rank(name, input, 3..=3, "[channels, height, width]") {
            return None;
        }
        cx.output(input.with_sample([input.sample[0], self.output[0], self.output[1]]))
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        cx.run(adaptive_avg_pool2d::rule::AdaptiveAvgPool2d { output: self.output }, &[input])
    }
}
