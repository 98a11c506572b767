//! `torch.nn.MaxPool2d`.

use std::rc::Rc;

use super::window::Window;
use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, PAIR, PAIR_FROM_ZERO, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::max_pool2d;

pub(super) const KIND: LayerKind = LayerKind {
    name: "max_pool2d",
    doc: "The largest element of each window over [channels, height, width].",
    fields: &[
        Field::required("kernel_size", PAIR, "Size of the window: n or [height, width]."),
        Field::optional("stride", PAIR, "kernel_size", "Step of the window: n or [height, width]."),
        Field::integer("padding", PAIR_FROM_ZERO, 0, "Padding around the input: n or [height, width]."),
    ],
    build: |values: &Values| Rc::new(MaxPool2d { window: Window::pooling(values) }),
};

#[derive(Debug)]
struct MaxPool2d {
    window: Window,
}

impl Layer for MaxPool2d {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        self.window.check_pooling("max_pool2d", cx);
        if !cx.floating("max_pool2d", input) || !cx.rank("max_pool2d", input, 3..=3, "[channels, height, width]") {
            return None;
        }
        self.window.slide("max_pool2d", input, input.sample[0], cx)
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        cx.run(max_pool2d::rule::MaxPool2d { window: self.window.pool() }, &[input])
    }
}
