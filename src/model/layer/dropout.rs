//! `torch.nn.Dropout`: Zeroes elements with probability p and scales the rest; passes its input through in evaluation.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, Interval, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::dropout;

pub(super) const KIND: LayerKind = LayerKind {
    name: "dropout",
    doc: "Zeroes elements with probability p and scales the rest; passes its input through in evaluation.",
    fields: &[
        Field::number("p", Interval::UNIT, 0.5, "Probability of a zero."),
        Field::bool("inplace", false, "Write into the input's memory instead of new memory."),
    ],
    build: |values: &Values| Rc::new(Dropout { p: values.number("p"), inplace: values.bool("inplace") }),
};

#[derive(Debug)]
struct Dropout {
    p: f64,
    inplace: bool,
}

impl Layer for Dropout {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.floating("dropout", input).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        if self.p == 0.0 || !cx.settings().training {
            return input; // PyTorch returns the very tensor
        }
        let op = dropout::rule::Dropout { p: self.p, inplace: self.inplace, training: true };
        if self.inplace { cx.update(op, &[input]) } else { cx.run(op, &[input]) }
    }
}
