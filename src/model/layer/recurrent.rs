//! `torch.nn.LSTM` and `torch.nn.GRU`, batch first; the output sequence goes on.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::meta::{DType, Shape};
use crate::model::Init;
use crate::model::field::{Field, SIZE, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::{
    copy_into::rule::CopyInto,
    rnn::rule::{Place, Rnn},
    zeros::rule::Zeros,
};
use crate::scratch::Cell;

pub(super) const LSTM: LayerKind = LayerKind {
    name: "lstm",
    doc: "Long short-term memory over [length, features]; gives the output at every position.",
    fields: FIELDS,
    build: |values: &Values| Rc::new(Recurrent::new(Cell::Lstm, values)),
};

pub(super) const GRU: LayerKind = LayerKind {
    name: "gru",
    doc: "Gated recurrent units over [length, features]; gives the output at every position.",
    fields: FIELDS,
    build: |values: &Values| Rc::new(Recurrent::new(Cell::Gru, values)),
};

/// The most layers on top of each other: each has weights with names of their own.
const MOST_LAYERS: u64 = 10_000;

const FIELDS: &[Field] = &[
    Field::required("hidden_size", SIZE, "Size of the hidden state."),
    Field::integer("num_layers", SIZE, 1, "Layers on top of each other."),
    Field::bool("bidirectional", false, "Whether it also runs from the end; the output is then twice as wide."),
];

#[derive(Debug)]
struct Recurrent {
    cell: Cell,
    hidden_size: u64,
    num_layers: u64,
    bidirectional: bool,
}

impl Recurrent {
    fn new(cell: Cell, values: &Values) -> Self {
        Self {
            cell,
            hidden_size: values.integer("hidden_size"),
            num_layers: values.integer("num_layers"),
            bidirectional: values.bool("bidirectional"),
        }
    }

    fn op(&self, training: bool) -> Rnn {
        let Self { cell, hidden_size: hidden, num_layers: layers, bidirectional, .. } = *self;
        Rnn { cell, hidden, layers, bidirectional, training }
    }

    /// Names of the weights, in PyTorch's order.
    fn names(&self) -> impl Iterator<Item = String> {
        let directions: &[&str] = if self.bidirectional { &["", "_reverse"] } else { &[""] };
        (0..self.num_layers).flat_map(move |layer| {
            directions.iter().flat_map(move |direction| {
                ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map(|part| format!("{part}_l{layer}{direction}"))
            })
        })
    }
}

impl Layer for Recurrent {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        let name = self.cell.name();
        if !cx.floating(name, input) || !cx.rank(name, input, 2..=2, "[length, features]") {
            return None;
        }
        if self.num_layers > MOST_LAYERS {
            let message = format!("{name} has {} layers on top of each other; at most {MOST_LAYERS} are possible", self.num_layers);
            cx.mistake_in("num_layers", message, None);
            return None;
        }
        let directions = if self.bidirectional { 2 } else { 1 };
        let (gates, wide) = (self.cell.gates(), self.hidden_size.saturating_mul(directions));
        let mut fits = cx.tensor("the gates' weights", &[gates, self.hidden_size, input.sample[1]]);
        fits &= cx.tensor("the gates' weights", &[gates, self.hidden_size, wide]);
        // All layers' weights lie in one buffer: at most each layer has the larger of the two, and two of them.
        let columns = input.sample[1].saturating_add(wide).saturating_add(self.hidden_size).saturating_add(2);
        fits &= cx.tensor("all weights", &[self.num_layers, directions, gates.saturating_mul(self.hidden_size), columns]);
        let state = [self.num_layers, directions, input.batch.unwrap_or(1), self.hidden_size];
        fits &= cx.tensor("a state", &state);
        if !fits {
            return None;
        }
        cx.output(input.with_sample([input.sample[0], wide]))
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let op = self.op(cx.settings().training);
        let dims = cx.meta(input).shape.dims().to_vec();
        let places = op.weights(dims[2]).expect("the layer's check refuses weights that are too large");
        let bound = Init::Uniform(1.0 / (self.hidden_size as f64).sqrt());
        let names = self.names().zip(&places);
        let weights: Vec<Var> = cx.module("rnn", |cx| {
            // `flatten_parameters` leaves bf16 as it is.
            if cx.settings().numerics.dtype == DType::BF16 {
                names.map(|(name, place)| cx.parameter(&name, place.shape.dims(), bound)).collect()
            } else {
                cx.flat_parameters(names.map(|(name, place)| (name, place.shape.clone(), place.offset)), bound)
            }
        });
        let dtype = cx.meta(input).dtype;
        let shape = op.state_shape(dims[0]).expect("the layer's check refuses states that are too large");
        let zeros: Vec<Var> = (0..op.states()).map(|_| cx.run(Zeros { shape: shape.clone(), dtype }, &[])).collect();
        let mut given = weights.clone();
        let mut temporary = Vec::new();
        let (mut states, mut x) = (zeros.clone(), input);
        if cx.settings().numerics.amp.is_some() && cx.settings().numerics.dtype != DType::F64 {
            // Autocast goes to f16 here, whatever its own type: the weights are copied into one buffer, then the arguments are cast from right
            // to left.
            let low = DType::F16;
            if cx.settings().numerics.dtype != low {
                let shape =
                    Shape::new([places.iter().map(|p| p.shape.numel()).sum()]).expect("the layer's check refuses what is too large");
                let buffer = cx.run(Zeros { shape, dtype: low }, &[]);
                let copy = |(place, &weight): (&Place, &Var)| cx.run(CopyInto { offset: place.offset }, &[buffer, weight]);
                given = places.iter().zip(&weights).map(copy).collect();
                temporary.push(buffer);
                temporary.extend(&given);
            }
            for argument in states.iter_mut().rev().chain([&mut x]) {
                let cast = cx.cast(*argument, low);
                if cast != *argument {
                    temporary.push(cast);
                    *argument = cast;
                }
            }
        }
        let arguments: Vec<Var> = std::iter::once(x).chain(states).chain(given).collect();
        let mut outputs = cx.run_all(op, &arguments);
        let last = outputs.split_off(1);
        // `y, _ = rnn(x)`: the last states outlive the module's first ones.
        temporary.into_iter().rev().chain(zeros.into_iter().rev()).chain(last.into_iter().rev()).for_each(|v| cx.drop(v));
        outputs[0]
    }
}
