//! `torch.nn.Tanh`: Hyperbolic tangent of every element.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::Values;
use crate::model::lowering::{Lowering, Var};
use crate::ops::tanh;

pub(super) const KIND: LayerKind =
    LayerKind { name: "tanh", doc: "Hyperbolic tangent of every element.", fields: &[], build: |_: &Values| Rc::new(Tanh) };

#[derive(Debug)]
struct Tanh;

impl Layer for Tanh {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.floating("tanh", input).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        cx.run(tanh::rule::Tanh, &[input])
    }
}
