//! `torch.nn.Flatten`: each sample as one row.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::meta::Shape;
use crate::model::lowering::{Lowering, Var};

pub(super) const KIND: LayerKind = LayerKind {
    name: "flatten",
    doc: "Views each sample as one row; takes no memory, but where the layer before left a transposed tensor, which is copied.",
    fields: &[],
    build: |_| Rc::new(Flatten),
};

#[derive(Debug)]
struct Flatten;

impl Layer for Flatten {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.rank("flatten", input, 1..=usize::MAX, "[…]").then(|| Signal { sample: vec![input.sample.iter().product()], ..input.clone() })
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let shape = &cx.meta(input).shape;
        if shape.rank() == 2 {
            return input; // PyTorch returns the very tensor
        }
        let batch = shape.dims()[0];
        let row = shape.dims()[1..].iter().product::<u64>();
        let rows = Shape::new([batch, row]).expect("as many elements as the input, which has a shape");
        cx.reshape(input, rows)
    }
}
