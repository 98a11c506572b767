//! `torch.nn.GELU`: Gaussian error linear unit of every element.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::gelu;

pub(super) const KIND: LayerKind = LayerKind {
    name: "gelu",
    doc: "Gaussian error linear unit of every element.",
    fields: &[Field::choice("approximate", &["none", "tanh"], "none", "The exact form, or the approximation by tanh.")],
    build: |values: &Values| Rc::new(Gelu { tanh: values.text("approximate") == "tanh" }),
};

#[derive(Debug)]
struct Gelu {
    tanh: bool,
}

impl Layer for Gelu {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.floating("gelu", input).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        cx.run(gelu::rule::Gelu { tanh: self.tanh }, &[input])
    }
}
