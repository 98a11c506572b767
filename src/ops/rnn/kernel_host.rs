//! What `rnn` computes on the host: products over whole sequences where steps do not depend on each other, and one step after another where
//! they do. Backward runs the steps forward again first: the reserve is cuDNN's alone.

use super::rule::Rnn;
use crate::device::host::{Factor, Field, Host, Real, multiply, with_real};
use crate::scratch::Cell;
use crate::tensor::Tensor;

/// The weights of one layer and direction.
struct Weights<R> {
    of_input: Vec<R>,
    of_hidden: Vec<R>,
    input_bias: Vec<R>,
    hidden_bias: Vec<R>,
}

/// Sizes of one layer and direction, as indices.
#[derive(Clone, Copy)]
struct Sides {
    cell: Cell,
    length: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    /// Whether it runs from the end.
    reverse: bool,
}

impl Sides {
    fn gates(&self) -> usize {
        self.cell.gates() as usize
    }

    /// Elements of one step: of the hidden state, of all gates.
    fn step(&self) -> usize {
        self.batch * self.hidden
    }

    fn wide(&self) -> usize {
        self.gates() * self.hidden
    }

    /// Positions in the order of their computation, each with the one before.
    fn steps(&self) -> impl DoubleEndedIterator<Item = (usize, Option<usize>)> {
        let (length, reverse) = (self.length, self.reverse);
        let at = move |i: usize| if reverse { length - 1 - i } else { i };
        (0..length).map(move |i| (at(i), i.checked_sub(1).map(at)))
    }
}

/// What running one layer and direction leaves.
struct Trace<R> {
    /// Gates after their functions, [length, batch, gate, hidden].
    gates: Vec<R>,
    /// GRU: what the reset gate is multiplied with; LSTM: the cell's state. [length, batch, hidden]
    inner: Vec<R>,
    /// [length, batch, hidden]
    out: Vec<R>,
}

/// Gradients before the gates' functions, [length, batch, gate, hidden].
struct Slopes<R> {
    of_input: Vec<R>,
    /// GRU's differ in the last gate.
    of_hidden: Option<Vec<R>>,
}

fn sigmoid<R: Field>(x: R) -> R {
    R::ONE / (R::ONE + (-x).exp())
}

fn tanh<R: Field>(x: R) -> R {
    let negative = x < R::ZERO;
    let e = (if negative { x + x } else { -(x + x) }).exp();
    let size = (R::ONE - e) / (R::ONE + e);
    if negative { -size } else { size }
}

/// `out += a · bᵀ`, with `a` of `rows` × `inner` and `b` of `columns` × `inner`.
fn add_product<R: Field>(out: &mut [R], a: &[R], b: &[R], [rows, inner, columns]: [usize; 3]) {
    multiply(out, true, Factor::rows(a, rows, inner), Factor::rows(b, columns, inner).transposed(), true);
}

/// Runs one layer and direction from a first state.
fn run<R: Field>(s: Sides, x: &[R], w: &Weights<R>, hidden: &[R], cell: &[R]) -> Trace<R> {
    let (h, wide, step) = (s.hidden, s.wide(), s.step());
    let mut gates: Vec<R> = (0..s.length * s.batch).flat_map(|_| w.input_bias.iter().copied()).collect();
    add_product(&mut gates, x, &w.of_input, [s.length * s.batch, s.features, wide]);
    let mut trace = Trace { gates, inner: vec![R::ZERO; s.length * step], out: vec![R::ZERO; s.length * step] };
    for (at, before) in s.steps() {
        let mut recurrent: Vec<R> = (0..s.batch).flat_map(|_| w.hidden_bias.iter().copied()).collect();
        let earlier = before.map_or(hidden, |b| &trace.out[b * step..][..step]).to_vec();
        add_product(&mut recurrent, &earlier, &w.of_hidden, [s.batch, h, wide]);
        for sample in 0..s.batch {
            let row = &mut trace.gates[(at * s.batch + sample) * wide..][..wide];
            let recurrent = &recurrent[sample * wide..][..wide];
            for j in 0..h {
                let here = at * step + sample * h + j;
                let gate = |g: usize, row: &[R]| row[g * h + j] + recurrent[g * h + j];
                match s.cell {
                    Cell::Lstm => {
                        let state = before.map_or(cell[sample * h + j], |b| trace.inner[b * step + sample * h + j]);
                        let [i, f, o] = [0, 1, 3].map(|g| sigmoid(gate(g, row)));
                        let new = tanh(gate(2, row));
                        for (g, value) in [i, f, new, o].into_iter().enumerate() {
                            row[g * h + j] = value;
                        }
                        trace.inner[here] = f * state + i * new;
                        trace.out[here] = o * tanh(trace.inner[here]);
                    }
                    Cell::Gru => {
                        let [reset, update] = [0, 1].map(|g| sigmoid(gate(g, row)));
                        let inner = recurrent[2 * h + j];
                        let new = tanh(row[2 * h + j] + reset * inner);
                        for (g, value) in [reset, update, new].into_iter().enumerate() {
                            row[g * h + j] = value;
                        }
                        trace.inner[here] = inner;
                        trace.out[here] = (R::ONE - update) * new + update * earlier[sample * h + j];
                    }
                }
            }
        }
    }
    trace
}

/// Gradients before the gates' functions, from those of the output.
fn back<R: Field>(s: Sides, w: &Weights<R>, trace: &Trace<R>, grad: &[R], hidden: &[R], cell: &[R]) -> Slopes<R> {
    let (h, wide, step) = (s.hidden, s.wide(), s.step());
    let mut of_input = vec![R::ZERO; s.length * s.batch * wide];
    let mut of_hidden = (s.cell == Cell::Gru).then(|| of_input.clone());
    // What later steps ask of this one's states.
    let (mut later, mut later_cell) = (vec![R::ZERO; step], vec![R::ZERO; step]);
    for (at, before) in s.steps().rev() {
        let rows = at * s.batch * wide..(at + 1) * s.batch * wide;
        let slopes = &mut of_input[rows.clone()];
        let mut direct = vec![R::ZERO; step];
        for k in 0..step {
            let (sample, j) = (k / h, k % h);
            let row = &trace.gates[(at * s.batch + sample) * wide..][..wide];
            let slope = &mut slopes[sample * wide..][..wide];
            let of_out = grad[at * step + k] + later[k];
            match s.cell {
                Cell::Lstm => {
                    let [i, f, new, o] = [0, 1, 2, 3].map(|g| row[g * h + j]);
                    let bent = tanh(trace.inner[at * step + k]);
                    let state = before.map_or(cell[k], |b| trace.inner[b * step + k]);
                    let of_cell = of_out * o * (R::ONE - bent * bent) + later_cell[k];
                    slope[j] = of_cell * new * i * (R::ONE - i);
                    slope[h + j] = of_cell * state * f * (R::ONE - f);
                    slope[2 * h + j] = of_cell * i * (R::ONE - new * new);
                    slope[3 * h + j] = of_out * bent * o * (R::ONE - o);
                    later_cell[k] = of_cell * f;
                }
                Cell::Gru => {
                    let [reset, update, new] = [0, 1, 2].map(|g| row[g * h + j]);
                    let state = before.map_or(hidden[k], |b| trace.out[b * step + k]);
                    let inner = trace.inner[at * step + k];
                    let of_new = of_out * (R::ONE - update) * (R::ONE - new * new);
                    slope[j] = of_new * inner * reset * (R::ONE - reset);
                    slope[h + j] = of_out * (state - new) * update * (R::ONE - update);
                    slope[2 * h + j] = of_new;
                    direct[k] = of_out * update;
                    let recurrent = &mut of_hidden.as_mut().expect("GRU has its own")[rows.start + sample * wide..][..wide];
                    recurrent[j] = slope[j];
                    recurrent[h + j] = slope[h + j];
                    recurrent[2 * h + j] = of_new * reset;
                }
            }
        }
        let recurrent = of_hidden.as_ref().map_or(&of_input[rows.clone()], |o| &o[rows.clone()]);
        later = direct;
        multiply(&mut later, true, Factor::rows(recurrent, s.batch, wide), Factor::rows(&w.of_hidden, wide, h), true);
    }
    Slopes { of_input, of_hidden }
}

/// All layers: what the network holds on the host.
struct Network<R> {
    /// By layer and direction.
    sides: Vec<Sides>,
    weights: Vec<Weights<R>>,
    hidden: Vec<R>,
    cell: Vec<R>,
}

/// What forward was given, and backward finds again.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// The input, [length, batch, features], contiguous.
    pub(super) sequence: &'a Tensor,
    /// The first hidden state, and LSTM's first cell state; none where they are zeros.
    pub(super) states: &'a [&'a Tensor],
    /// In PyTorch's order, each by itself or all in one buffer.
    pub(super) weights: &'a [&'a Tensor],
}

impl Rnn {
    fn network<R: Field>(&self, host: &Host, Given { sequence, states, weights }: Given<'_>) -> Network<R> {
        let size = |n: u64| usize::try_from(n).expect("the host addresses what it computes on");
        let dims: Vec<usize> = sequence.shape().dims().iter().map(|&d| size(d)).collect();
        let places = self.weights(sequence.shape().last()).expect("the weights were inferred before");
        let mut values: Vec<Vec<R>> = weights.iter().map(|w| host.values(w.operand())).collect();
        if let [all] = &values[..] {
            values = places.iter().map(|p| all[size(p.offset)..][..size(p.shape.numel())].to_vec()).collect();
        }
        let directions = size(self.directions());
        let sides = |number: usize| Sides {
            cell: self.cell,
            length: dims[0],
            batch: dims[1],
            features: if number < directions { dims[2] } else { size(self.hidden) * directions },
            hidden: size(self.hidden),
            reverse: number % directions == 1,
        };
        let sides: Vec<Sides> = (0..size(self.layers) * directions).map(sides).collect();
        let mut values = values.into_iter();
        let mut next = || values.next().expect("four weights a layer and direction");
        let weights =
            sides.iter().map(|_| Weights { of_input: next(), of_hidden: next(), input_bias: next(), hidden_bias: next() }).collect();
        let state = |i: usize| states.get(i).map_or_else(Vec::new, |s| host.values(s.operand()));
        Network { sides, weights, hidden: state(0), cell: state(1) }
    }

    pub(super) fn forward_on_host(&self, host: &Host, given: Given<'_>, out: &Tensor) {
        let sequence = given.sequence;
        with_real!([sequence], R => {
            let network = self.network::<R>(host, given);
            let (outputs, _) = network.forward(host.values(sequence.operand()), self.directions() as usize);
            host.store(out.operand(), outputs.last().expect("there is a layer"));
        });
    }

    /// The gradients of the input and of the weights, in PyTorch's order.
    fn gradients<R: Field>(&self, host: &Host, given: Given<'_>, grad: &Tensor) -> (Vec<R>, Vec<Vec<R>>) {
        let network = self.network::<R>(host, given);
        network.backward(host.values(given.sequence.operand()), host.values(grad.operand()), self.directions() as usize)
    }

    pub(super) fn grad_input_on_host(&self, host: &Host, given: Given<'_>, grad: &Tensor, to: &Tensor) {
        let sequence = given.sequence;
        with_real!([sequence], R => {
            let (of_input, _) = self.gradients::<R>(host, given, grad);
            host.store(to.operand(), &of_input);
        });
    }

    pub(super) fn grad_weights_on_host(&self, host: &Host, given: Given<'_>, grad: &Tensor, to: &Tensor) {
        let sequence = given.sequence;
        with_real!([sequence], R => {
            let (_, of_weights) = self.gradients::<R>(host, given, grad);
            let places = self.weights(sequence.shape().last()).expect("the weights were inferred before");
            let mut all = vec![R::ZERO; of_weights.iter().map(Vec::len).sum()];
            for (place, values) in places.iter().zip(&of_weights) {
                all[place.offset as usize..][..values.len()].copy_from_slice(values);
            }
            host.store(to.operand(), &all);
        });
    }
}

impl<R: Field> Network<R> {
    fn state<'a>(&self, states: &'a [R], number: usize) -> &'a [R] {
        let step = self.sides[number].step();
        if states.is_empty() { states } else { &states[number * step..][..step] }
    }

    /// Every layer's output, directions side by side, after the input; and what every layer and direction left.
    fn forward(&self, x: Vec<R>, directions: usize) -> (Vec<Vec<R>>, Vec<Trace<R>>) {
        let mut outputs = vec![x];
        let mut traces = Vec::new();
        for layer in 0..self.sides.len() / directions {
            let input = outputs.last().expect("it begins with the input");
            let first = traces.len();
            for number in layer * directions..(layer + 1) * directions {
                let states = [&self.hidden, &self.cell].map(|s| self.state(s, number));
                traces.push(run(self.sides[number], input, &self.weights[number], states[0], states[1]));
            }
            outputs.push(side_by_side(&traces[first..], self.sides[first].hidden));
        }
        (outputs, traces)
    }

    /// The gradients of the input and of the weights, in PyTorch's order.
    fn backward(&self, x: Vec<R>, grad: Vec<R>, directions: usize) -> (Vec<R>, Vec<Vec<R>>) {
        let (outputs, traces) = self.forward(x, directions);
        let mut of_weights: Vec<Vec<R>> = vec![Vec::new(); 4 * self.sides.len()];
        let mut of_output = grad;
        for layer in (0..self.sides.len() / directions).rev() {
            let input = &outputs[layer];
            let mut of_input = vec![R::ZERO; input.len()];
            for direction in 0..directions {
                let number = layer * directions + direction;
                let (s, w, trace) = (self.sides[number], &self.weights[number], &traces[number]);
                let states = [&self.hidden, &self.cell].map(|s| self.state(s, number));
                let own: Vec<R> = of_output.chunks(s.hidden).skip(direction).step_by(directions).flatten().copied().collect();
                let slopes = back(s, w, trace, &own, states[0], states[1]);
                let rows = s.length * s.batch;
                let of_gates = Factor::rows(&slopes.of_input, rows, s.wide());
                multiply(&mut of_input, true, of_gates, Factor::rows(&w.of_input, s.wide(), s.features), true);
                let recurrent = slopes.of_hidden.as_ref().unwrap_or(&slopes.of_input);
                let mut earlier = vec![R::ZERO; rows * s.hidden];
                for (at, before) in s.steps() {
                    let from = before.map_or(states[0], |b| &trace.out[b * s.step()..][..s.step()]);
                    earlier[at * s.step()..][..s.step()].copy_from_slice(from);
                }
                let weight = |gates: &[R], with: &[R], columns: usize| {
                    let mut out = vec![R::ZERO; s.wide() * columns];
                    multiply(&mut out, false, Factor::rows(gates, rows, s.wide()).transposed(), Factor::rows(with, rows, columns), true);
                    out
                };
                of_weights[4 * number] = weight(&slopes.of_input, input, s.features);
                of_weights[4 * number + 1] = weight(recurrent, &earlier, s.hidden);
                of_weights[4 * number + 2] = column_sums(&slopes.of_input, s.wide());
                of_weights[4 * number + 3] = column_sums(recurrent, s.wide());
            }
            of_output = of_input;
        }
        (of_output, of_weights)
    }
}

fn column_sums<R: Field>(rows: &[R], wide: usize) -> Vec<R> {
    let mut sums = vec![R::ZERO; wide];
    rows.chunks_exact(wide).for_each(|row| sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x));
    sums
}

/// The outputs of all directions, one beside the other at every position.
fn side_by_side<R: Field>(traces: &[Trace<R>], hidden: usize) -> Vec<R> {
    let rows = traces[0].out.len() / hidden;
    (0..rows).flat_map(|row| traces.iter().flat_map(move |t| t.out[row * hidden..][..hidden].iter().copied())).collect()
}
