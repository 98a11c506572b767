//! `torch.utils.checkpoint.checkpoint(…, use_reentrant=False)` over some layers.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Sequence, Signal};
use crate::model::field::{Field, Kind, Values};
use crate::model::lowering::{Lowering, Var};

pub(super) const KIND: LayerKind = LayerKind {
    name: "checkpoint",
    doc: "The layers, with their activations recomputed in backward instead of kept.",
    fields: &[Field::required("layers", Kind::Layers, "What is recomputed.")],
    build: |values: &Values| Rc::new(Checkpoint { layers: values.layers("layers") }),
};

#[derive(Debug)]
struct Checkpoint {
    layers: Sequence,
}

impl Layer for Checkpoint {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        self.layers.check(input, cx)
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        cx.checkpoint(input, |cx| self.layers.lower(input, cx))
    }

    fn children(&self) -> Vec<&Sequence> {
        vec![&self.layers]
    }
}
