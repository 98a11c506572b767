//! A named list of layers from `[model.blocks]`: an `nn.Sequential` of its own wherever it is used.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Sequence, Signal};
use crate::model::field::{Field, Kind, Values};
use crate::model::lowering::{Lowering, Var};

/// The one layer whose value is no table: `{ block = "name" }`. Its field holds the named layers.
pub(super) const KIND: LayerKind = LayerKind {
    name: "block",
    doc: "The layers of that name in `[model.blocks]`, each time with parameters of their own.",
    fields: &[Field::required("block", Kind::Block, "The name of a list of layers in `[model.blocks]`.")],
    build: |values: &Values| Rc::new(Block { layers: values.layers("block") }),
};

#[derive(Debug)]
struct Block {
    layers: Sequence,
}

impl Layer for Block {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        self.layers.check(input, cx)
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        self.layers.lower(input, cx)
    }

    fn children(&self) -> Vec<&Sequence> {
        vec![&self.layers]
    }
}
