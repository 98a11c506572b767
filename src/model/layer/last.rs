//! The last position of a sequence: `x[:, -1]`.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::lowering::{Lowering, Var};
use crate::ops::select;

pub(super) const KIND: LayerKind =
    LayerKind { name: "last", doc: "Takes the last position of a sequence.", fields: &[], build: |_| Rc::new(Last) };

#[derive(Debug)]
struct Last;

impl Layer for Last {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.rank("last", input, 1..=usize::MAX, "[length, …]").then(|| Signal { sample: input.sample[1..].to_vec(), ..input.clone() })
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let last = cx.meta(input).shape.dims()[1] - 1;
        cx.run(select::rule::Select { dim: 1, index: last }, &[input])
    }
}
