//! `torch.nn.SiLU`: `x · sigmoid(x)` of every element.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::silu;

pub(super) const KIND: LayerKind = LayerKind {
    name: "silu",
    doc: "`x · sigmoid(x)` of every element.",
    fields: &[Field::bool("inplace", false, "Write into the input's memory instead of new memory.")],
    build: |values: &Values| Rc::new(Silu { inplace: values.bool("inplace") }),
};

#[derive(Debug)]
struct Silu {
    inplace: bool,
}

impl Layer for Silu {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.floating("silu", input).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let op = silu::rule::Silu { inplace: self.inplace };
        if self.inplace { cx.update(op, &[input]) } else { cx.run(op, &[input]) }
    }
}
