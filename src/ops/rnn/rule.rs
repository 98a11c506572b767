//! What `rnn` does to memory: PyTorch's `_cudnn_rnn`, batch first. cuDNN wants the length in front, so that inputs are copied where the
//! batch lies outermost, and results come back as they are, with their strides exchanged.

use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError, Slot};
use crate::scratch::{Buffer, Cell, Recurrent, Request};

/// A recurrent network. Inputs: x (batch, length, features), the first hidden state, for LSTM the first cell state, then either every
/// weight, in PyTorch's order, or one buffer of all. Outputs: y, then the last states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rnn {
    /// LSTM or GRU.
    pub cell: Cell,
    /// Size of the hidden state.
    pub hidden: u64,
    /// Layers on top of each other.
    pub layers: u64,
    /// Whether each layer also runs from the end.
    pub bidirectional: bool,
    /// Whether the module is in training mode: a reserve is kept for backward.
    pub training: bool,
}

/// A weight's place in the buffer of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Of its first element.
    pub offset: u64,
    /// Its shape.
    pub shape: Shape,
}

impl Rnn {
    /// One, or two.
    #[must_use]
    pub const fn directions(&self) -> u64 {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Inputs that are states.
    #[must_use]
    pub const fn states(&self) -> usize {
        match self.cell {
            Cell::Lstm => 2,
            Cell::Gru => 1,
        }
    }

    /// Shape of a state for a batch.
    ///
    /// # Errors
    /// Its product leaves 63 bits.
    pub fn state_shape(&self, batch: u64) -> Result<Shape, ShapeError> {
        Ok(Shape::new([self.layers * self.directions(), batch, self.hidden])?)
    }

    /// The weights of an input of that many features, in PyTorch's order (layer by layer, direction by direction: of the input, of the
    /// hidden state, and their biases), with their places in cuDNN's buffer, where all biases come after all matrices.
    ///
    /// # Errors
    /// A product leaves 63 bits.
    pub fn weights(&self, features: u64) -> Result<Vec<Place>, ShapeError> {
        let rows = self.cell.gates() * self.hidden;
        let mut places = Vec::new();
        let mut offset = 0u64;
        for layer in 0..self.layers {
            let columns = if layer == 0 { features } else { self.hidden * self.directions() };
            for _ in 0..self.directions() {
                for columns in [columns, self.hidden] {
                    let shape = Shape::new([rows, columns])?;
                    let next = offset + shape.numel();
                    places.push(Place { offset, shape });
                    offset = next;
                }
                for _ in 0..2 {
                    places.push(Place { offset: 0, shape: Shape::new([rows])? });
                }
            }
        }
        for place in places.iter_mut().filter(|p| p.shape.rank() == 1) {
            place.offset = offset;
            offset += rows;
        }
        Ok(places)
    }

    /// What is computed, for inputs that `infer` took.
    ///
    /// # Panics
    /// `infer` refuses them.
    #[must_use]
    pub fn call(&self, buffer: Buffer, x: &TensorMeta) -> Recurrent {
        let &[batch, length, input] = x.shape.dims() else { panic!("infer refuses any other rank than three") };
        let Self { cell, hidden, layers, bidirectional, training } = *self;
        Recurrent { buffer, cell, dtype: x.dtype, batch, length, input, hidden, layers, bidirectional, training }
    }

    fn scratch(&self, cx: RuleContext<'_>, buffer: Buffer, x: &TensorMeta) -> u64 {
        cx.scratch.bytes(cx.gpu, &Request::Recurrent(self.call(buffer, x)))
    }

    /// Whether cuDNN gets the weights as they lie. PyTorch does not flatten bf16 modules.
    fn are_flat(&self, inputs: &[TensorMeta]) -> bool {
        inputs.len() == self.states() + 2 || inputs[0].dtype != DType::BF16
    }

    /// All weights in one buffer.
    fn weight_bytes(inputs: &[TensorMeta], states: usize) -> u64 {
        inputs[1 + states..].iter().map(TensorMeta::bytes).sum()
    }
}

/// A tensor of (length, batch, …) seen as (batch, length, …), or the other way round.
fn exchanged(t: &TensorMeta) -> TensorMeta {
    let (mut dims, mut strides) = (t.shape.dims().to_vec(), t.strides.clone());
    dims.swap(0, 1);
    strides.swap(0, 1);
    TensorMeta { shape: Shape::new(dims).expect("as many elements as before"), dtype: t.dtype, strides }
}

/// A fresh tensor of that shape whose length lies outermost.
fn length_outermost(like: &TensorMeta) -> TensorMeta {
    exchanged(&exchanged(like).like())
}

impl OpRule for Rnn {
    fn name(&self) -> &'static str {
        "rnn"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let x = &inputs[0];
        let &[batch, length, features] = x.shape.dims() else {
            return Err(ShapeError { message: format!("{} needs an input of three dimensions, got {}", self.cell.name(), x.shape) });
        };
        let weights = self.weights(features)?;
        let given = &inputs[1 + self.states()..];
        let all = weights.iter().map(|w| w.shape.numel()).sum::<u64>();
        let flat = given.len() == 1 && given[0].numel() == all;
        if !flat && !given.iter().map(|g| &g.shape).eq(weights.iter().map(|w| &w.shape)) {
            return Err(ShapeError { message: format!("{} over an input of shape {} needs other weights", self.cell.name(), x.shape) });
        }
        let out = TensorMeta::contiguous(Shape::new([batch, length, self.hidden * self.directions()])?, x.dtype);
        let last = TensorMeta::contiguous(self.state_shape(batch)?, x.dtype);
        Ok(std::iter::once(length_outermost(&out)).chain(std::iter::repeat_n(last, self.states())).collect())
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let (x, state) = (&inputs[0], &inputs[1]);
        let needed = needs.contains(&true);
        let mut r = Recipe::new();
        // By name: `cx`, `hx`, `input`, `weight`.
        (0..=self.states()).rev().chain(1 + self.states()..inputs.len()).for_each(|i| r.keep(Saved::Input(i), needed));
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let copy = (!exchanged(x).is_contiguous()).then(|| r.tensor(&x.like()));
        let slot = r.tensor(&out);
        let last: Vec<Slot> = (0..self.states()).map(|_| r.tensor(state)).collect();
        let weights = (!self.are_flat(inputs)).then(|| r.alloc(Self::weight_bytes(inputs, self.states())));
        let workspace = r.alloc(self.scratch(cx, Buffer::Workspace, x));
        let reserve = self.training.then(|| r.alloc(self.scratch(cx, Buffer::Reserve, x)));
        r.free(workspace);
        if let Some(copy) = copy {
            r.free(copy);
        }
        r.keep(Saved::Output(0), needed);
        for kept in reserve.into_iter().chain(weights) {
            r.keep_or_free(kept, needed);
        }
        let last = last.into_iter().map(|slot| Output::New(slot, state.like()));
        r.forward(std::iter::once(Output::New(slot, out)).chain(last).collect())
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let mut gradients = vec![Gradient::None; inputs.len()];
        let Some(incoming) = &grads[0] else { return r.backward(gradients) };
        let (x, state, states) = (&inputs[0], &inputs[1], self.states());
        let copy = |r: &mut Recipe, of: &TensorMeta| (!exchanged(of).is_contiguous()).then(|| r.tensor(&of.like()));
        // Nobody used the last states: their gradients are zeros.
        let zeros: Vec<Slot> = (0..states).map(|_| r.tensor(state)).collect();
        let (of_x, of_grad) = (copy(&mut r, x), copy(&mut r, incoming));
        let to_x = r.tensor(&x.like());
        let to_states: Vec<Slot> = (0..states).map(|_| r.tensor(state)).collect();
        let workspace = self.scratch(cx, Buffer::Workspace, x);
        r.temporary(workspace);
        for written in of_grad.into_iter().chain(of_x) {
            r.free(written);
        }
        let of_x = copy(&mut r, x);
        let to_weights = r.alloc(Self::weight_bytes(inputs, states));
        r.temporary(workspace);
        if let Some(written) = of_x {
            r.free(written);
        }
        zeros.into_iter().rev().for_each(|s| r.free(s));
        r.returned();
        if needs[0] {
            gradients[0] = Gradient::New(to_x, length_outermost(x));
        } else {
            r.free(to_x);
        }
        to_states.into_iter().for_each(|s| r.free(s));
        let given = 1 + states;
        for i in (given..inputs.len()).filter(|&i| needs[i]) {
            gradients[i] = Gradient::Part(to_weights, inputs[i].like());
        }
        r.backward(gradients)
    }
}
