//! `body(x) + shortcut(x)`, as hand-written residual blocks compute it.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Sequence, Signal};
use crate::model::field::{Field, Kind, Literal, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::add;

pub(super) const KIND: LayerKind = LayerKind {
    name: "residual",
    doc: "`body(x) + shortcut(x)`; the body runs first.",
    fields: &[
        Field::required("layers", Kind::Layers, "The body."),
        Field::with_default(
            "shortcut",
            Kind::Layers,
            Literal::Empty,
            "What the input passes through before the addition; nothing where empty.",
        ),
        Field::bool("inplace", false, "Add into the body's output (`+=`) instead of new memory."),
    ],
    build: |values: &Values| {
        Rc::new(Residual { body: values.layers("layers"), shortcut: values.layers("shortcut"), inplace: values.bool("inplace") })
    },
};

#[derive(Debug)]
struct Residual {
    body: Sequence,
    shortcut: Sequence,
    inplace: bool,
}

impl Layer for Residual {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        let body = self.body.check(input, cx);
        let shortcut = self.shortcut.check(input, cx);
        let (body, shortcut) = (body?, shortcut?);
        if body.sample != shortcut.sample {
            let name = if self.shortcut.is_empty() { "input" } else { "shortcut" };
            cx.mistake_with_hint(
                format!("residual adds its body's output of shape {} to its {name} of shape {}", body.describe(), shortcut.describe()),
                if self.shortcut.is_empty() {
                    "let the body end in the input's shape, or give a `shortcut`"
                } else {
                    "body and shortcut must end in one shape"
                },
            );
        }
        cx.floating("residual", &body).then_some(body)
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let mut out = cx.module("body", |cx| self.body.lower(input, cx));
        let identity = if self.shortcut.is_empty() { input } else { cx.part("shortcut", |cx| self.shortcut.lower(input, cx)) };
        let op = add::rule::Add { inplace: self.inplace };
        if self.inplace {
            cx.update(op, &[out, identity]);
        } else {
            let sum = cx.run(op, &[out, identity]);
            if out != input {
                cx.drop(out);
            }
            out = sum;
        }
        if identity != input {
            cx.drop(identity);
        }
        out
    }

    fn children(&self) -> Vec<&Sequence> {
        vec![&self.body, &self.shortcut]
    }
}
