//! Layers, several times over, each time with parameters of their own.

use std::rc::Rc;

use super::sequence::{At, sequential};
use super::{Check, Layer, LayerKind, Sequence, Signal};
use crate::model::field::{Field, Kind, SIZE, Values};
use crate::model::lowering::{Lowering, Var};

pub(super) const KIND: LayerKind = LayerKind {
    name: "repeat",
    doc: "The layers, so many times one after the other, each time with parameters of their own.",
    fields: &[Field::required("times", SIZE, "How often."), Field::required("layers", Kind::Layers, "What is repeated.")],
    build: |values: &Values| Rc::new(Repeat { times: values.integer("times"), layers: values.layers("layers") }),
};

#[derive(Debug)]
struct Repeat {
    times: u64,
    layers: Sequence,
}

impl Layer for Repeat {
    /// A repetition that changes no shape stands for all that follow.
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        let mut signal = input.clone();
        for _ in 0..self.times {
            let output = self.layers.check(&signal, cx)?;
            if output == signal {
                break;
            }
            signal = output;
        }
        Some(signal)
    }

    /// As a module: what a `repeat` directly within a `repeat` becomes. Elsewhere the sequence around it lists its layers.
    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let modules = (0..self.times).flat_map(|_| self.layers.items());
        sequential(modules.enumerate(), input, cx, |(i, module), x, cx| module.lower(At::both(i), x, cx))
    }

    fn children(&self) -> Vec<&Sequence> {
        vec![&self.layers]
    }

    fn repeats(&self) -> Option<(&Sequence, u64)> {
        Some((&self.layers, self.times))
    }
}
