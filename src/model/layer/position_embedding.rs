//! A learned vector for each position, added: `x + weight[:length]`.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::Init;
use crate::model::field::{Field, SIZE, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::{add, slice};

pub(super) const KIND: LayerKind = LayerKind {
    name: "position_embedding",
    doc: "Adds a learned vector for each position of [length, features].",
    fields: &[Field::required("max_length", SIZE, "The longest sequence it knows.")],
    build: |values: &Values| Rc::new(PositionEmbedding { max_length: values.integer("max_length") }),
};

#[derive(Debug)]
struct PositionEmbedding {
    max_length: u64,
}

impl Layer for PositionEmbedding {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        let name = "position_embedding";
        if !cx.floating(name, input) || !cx.rank(name, input, 2..=2, "[length, features]") {
            return None;
        }
        let length = input.sample[0];
        if length > self.max_length {
            let message = format!("position_embedding knows {} positions, but its input has {length}", self.max_length);
            cx.mistake_in("max_length", message, Some(format!("at least {length}")));
        }
        cx.tensor("a weight", &[self.max_length, input.sample[1]]);
        Some(input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let dims = cx.meta(input).shape.dims();
        let (length, features) = (dims[1], dims[2]);
        let weight = cx.parameter("weight", [self.max_length, features], Init::Normal(0.02));
        let used = cx.run(slice::rule::Slice { dim: 0, length }, &[weight]);
        let sum = cx.run(add::rule::Add { inplace: false }, &[input, used]);
        cx.drop(used);
        sum
    }
}
