//! `torch.nn.Softmax(dim=-1)`: Softmax over the last dimension.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::meta::DType;
use crate::model::field::Values;
use crate::model::lowering::{Lowering, Var};
use crate::ops::softmax;

pub(super) const KIND: LayerKind =
    LayerKind { name: "softmax", doc: "Softmax over the last dimension.", fields: &[], build: |_: &Values| Rc::new(Softmax) };

#[derive(Debug)]
struct Softmax;

impl Layer for Softmax {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.floating("softmax", input).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        // Autocast asks for an f32 result: of f16 in one pass, of bf16 after a cast.
        match cx.autocast_to_f32(input) {
            Some(DType::F16) => cx.run(softmax::rule::Softmax::plain(true), &[input]),
            _ => cx.run_f32(softmax::rule::Softmax::plain(false), &[input]),
        }
    }
}
