//! `torch.nn.Sigmoid`: Logistic sigmoid of every element.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::Values;
use crate::model::lowering::{Lowering, Var};
use crate::ops::sigmoid;

pub(super) const KIND: LayerKind =
    LayerKind { name: "sigmoid", doc: "Logistic sigmoid of every element.", fields: &[], build: |_: &Values| Rc::new(Sigmoid) };

#[derive(Debug)]
struct Sigmoid;

impl Layer for Sigmoid {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.floating("sigmoid", input).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        cx.run(sigmoid::rule::Sigmoid, &[input])
    }
}
