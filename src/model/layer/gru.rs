//! `torch.nn.GRU`, batch first; its output sequence goes on.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::field::{Field, SIZE, Values};

pub(super) const KIND: LayerKind = LayerKind {
    name: "gru",
    doc: "Gated recurrent units over [length, features]; gives the output at every position.",
    fields: &[
        Field::required("hidden_size", SIZE, "Size of the hidden state."),
        Field::integer("num_layers", SIZE, 1, "Layers on top of each other."),
        Field::bool("bidirectional", false, "Whether it also runs from the end; the output is then twice as wide."),
    ],
    build: |values: &Values| {
        let directions = if values.bool("bidirectional") { 2 } else { 1 };
        Rc::new(Gru { hidden_size: values.integer("hidden_size"), directions })
    },
    has_operators: false,
};

#[derive(Debug)]
struct Gru {
    hidden_size: u64,
    directions: u64,
}

impl Layer for Gru {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        if !cx.floating("gru", input) || !cx.rank("gru", input, 2..=2, "[length, features]") {
            return None;
        }
        cx.tensor("the gates' weights", &[3, self.hidden_size, input.sample[1]]);
        cx.tensor("the gates' weights", &[3, self.hidden_size, self.hidden_size]);
        cx.output(input.with_sample([input.sample[0], self.hidden_size.saturating_mul(self.directions)]))
    }
}
