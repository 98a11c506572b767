//! `torch.nn.ReLU`: `max(x, 0)` of every element.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::relu;

pub(super) const KIND: LayerKind = LayerKind {
    name: "relu",
    doc: "`max(x, 0)` of every element.",
    fields: &[Field::bool("inplace", false, "Write into the input's memory instead of new memory.")],
    build: |values: &Values| Rc::new(Relu { inplace: values.bool("inplace") }),
};

#[derive(Debug)]
struct Relu {
    inplace: bool,
}

impl Layer for Relu {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.floating("relu", input).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let op = relu::rule::Relu { inplace: self.inplace };
        if self.inplace { cx.update(op, &[input]) } else { cx.run(op, &[input]) }
    }
}
