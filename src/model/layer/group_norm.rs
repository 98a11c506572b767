//! `torch.nn.GroupNorm`.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::Init;
use crate::model::field::{Field, SIZE, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::{contiguous, group_norm};

pub(super) const KIND: LayerKind = LayerKind {
    name: "group_norm",
    doc: "Normalises each sample over groups of channels, then scales and shifts each channel.",
    fields: &[Field::required("num_groups", SIZE, "Groups that the channels divide into.")],
    build: |values: &Values| Rc::new(GroupNorm { num_groups: values.integer("num_groups") }),
};

#[derive(Debug)]
struct GroupNorm {
    num_groups: u64,
}

impl Layer for GroupNorm {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        if !cx.floating("group_norm", input) || !cx.rank("group_norm", input, 1..=usize::MAX, "[channels, …]") {
            return None;
        }
        if !input.sample[0].is_multiple_of(self.num_groups) {
            cx.mistake_in(
                "num_groups",
                format!("group_norm: {} channels do not divide into {} groups", input.sample[0], self.num_groups),
                None,
            );
        }
        let positions = || input.sample[1..].iter().product::<u64>();
        if input.batch == Some(1) && input.sample[0] == self.num_groups && positions() == 1 {
            cx.mistake_with_hint(
                format!("group_norm needs more than one value a group, but a batch of 1 of {} has one", input.describe()),
                "PyTorch refuses it, in evaluation too: `Expected more than 1 value per channel when training`; use fewer groups or a larger `batch_size`",
            );
        }
        Some(input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let channels = cx.meta(input).shape.dims()[1];
        let weight = cx.parameter("weight", [channels], Init::Constant(1.0));
        let bias = cx.parameter("bias", [channels], Init::Constant(0.0));
        let op = group_norm::rule::GroupNorm { groups: self.num_groups, eps: 1e-5 };
        cx.f32(&[input, weight, bias], |cx, inputs| {
            if cx.meta(inputs[0]).is_contiguous() {
                return cx.run(op, inputs);
            }
            let rows = cx.run(contiguous::rule::Contiguous, &inputs[..1]);
            let normal = cx.run(op, &[rows, inputs[1], inputs[2]]);
            cx.drop(rows);
            normal
        })
    }
}
