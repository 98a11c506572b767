//! Workspace and reserve of cuDNN's recurrent networks, as PyTorch calls them: LSTM and GRU over a padded batch. Fitted to 2,407
//! recordings of cuDNN 9.19 on an H200 (f32, f16, bf16; 1 to 3 layers; one and two directions), all of which it gives to the byte.
//! It says nothing of packed sequences and projections.
//!
//! Reserve: what backward needs of each layer, position and direction: five states (LSTM) or six (GRU), and, between layers, the
//! output. Workspace: what both passes share, and the larger of what forward and backward need.
//!
//! Invariant: every piece of a workspace starts on 32 bytes, so sizes are rounded piece by piece, not in sum.

use crate::gpu::Gpu;
use crate::meta::DType;
use crate::scratch::{Buffer, Cell, Recurrent};

/// Pieces of a workspace start on multiples of this many bytes, and a reserve ends on one.
const ALIGNMENT: u128 = 32;
/// What each layer and direction has for its matrix products, in bytes.
const PRODUCTS: u128 = 8 << 20;
/// A head that every buffer has, in bytes.
const HEAD: u128 = 256;
/// Two 32-bit lengths a sample, in bytes.
const LENGTHS: u128 = 8;

/// Bytes of the buffer asked for; no more than fits in 63 bits.
pub(super) fn bytes(gpu: &Gpu, request: &Recurrent) -> u64 {
    let network = Network::new(gpu, request);
    let bytes = match request.buffer {
        Buffer::Workspace => network.workspace(request.training),
        Buffer::Reserve if request.training => network.reserve(),
        Buffer::Reserve => 0,
    };
    u64::try_from(bytes).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}

/// A network in the sizes that its buffers are made of. In 128 bits nothing overflows: each is at most a few hundred tensors.
struct Network {
    lstm: bool,
    /// Gates of a cell.
    gates: u128,
    batch: u128,
    length: u128,
    layers: u128,
    /// 1, or 2 where layers run both ways.
    directions: u128,
    /// The hidden state of the batch at one position, in bytes.
    state: u128,
    /// The hidden states of all positions, in bytes.
    states: u128,
    /// The input, in bytes.
    input: u128,
    /// All weights without biases, in bytes.
    weights: u128,
    /// Whether the kernels keep weights on chip from position to position.
    persistent: bool,
}

impl Network {
    fn new(gpu: &Gpu, r: &Recurrent) -> Self {
        let [element, batch, length, input, hidden, layers] =
            [r.dtype.bytes(), r.batch, r.length, r.input, r.hidden, r.layers].map(u128::from);
        let gates = u128::from(r.cell.gates());
        let directions = if r.bidirectional { 2 } else { 1 };
        let inputs = input + (layers - 1) * directions * hidden;
        let state = batch * hidden * element;
        Self {
            lstm: r.cell == Cell::Lstm,
            gates,
            batch,
            length,
            layers,
            directions,
            state,
            states: length * state,
            input: length * batch * input * element,
            weights: gates * directions * hidden * (inputs + layers * hidden) * element,
            persistent: is_persistent(gpu, r),
        }
    }

    fn reserve(&self) -> u128 {
        let kept = if self.lstm { 5 } else { 6 };
        let between = (self.layers - 1) * self.directions;
        round((kept * self.layers * self.directions + between) * self.states) + HEAD
    }

    fn workspace(&self, training: bool) -> u128 {
        let shared = self.layers * self.directions * PRODUCTS + round(self.weights) + round(LENGTHS * self.batch) + HEAD;
        shared + if training { self.forward().max(self.backward()) } else { self.forward() }
    }

    /// Gates of all positions, the layers' outputs, the input; and of each layer a few states of one position.
    fn forward(&self) -> u128 {
        let outputs = if self.directions == 1 { 1 } else { 6 };
        let mut sequences = vec![self.gates * self.directions * self.states, outputs * self.states, self.input];
        if self.persistent {
            sequences.push(4 * self.gates * self.states);
        }
        let mut groups = if self.lstm { vec![1, 1, 1, 1, 2] } else { vec![1, 1] };
        groups.push(if self.persistent { 2 } else { self.gates });
        pieces(&sequences) + self.of_layers(&groups)
    }

    /// Gradients: of the outputs, of the input, and of whichever of the two is larger; a window of positions; and of each layer more states
    /// of one position than forward.
    fn backward(&self) -> u128 {
        let larger = self.input.max(self.states);
        let outputs = self.directions * self.states;
        let mut sequences = vec![outputs, outputs, self.window(), self.input, self.input];
        if self.directions == 1 {
            sequences.push(larger);
        } else {
            sequences.extend([2 * larger; 2]);
        }
        if self.persistent {
            sequences.push(if self.lstm { 12 } else { 14 } * self.states);
        }
        let (singles, doubles) = match (self.lstm, self.persistent) {
            (true, false) => (9, 1),
            (true, true) => (8, 2),
            (false, false) => (5, 0),
            (false, true) => (4, 1),
        };
        pieces(&sequences) + self.of_layers(&[vec![1; singles], vec![2; doubles]].concat())
    }

    /// Layers run as a wavefront over blocks of positions, and the window holds as many blocks as there are layers, and one more; the larger
    /// the batch, the shorter a block. One layer, or one that runs both ways or persists, has no wavefront.
    fn window(&self) -> u128 {
        if self.layers == 1 {
            return self.directions * self.states;
        }
        if self.directions == 2 {
            return 4 * self.states;
        }
        if self.persistent {
            return 2 * self.states;
        }
        let block = match (self.batch, self.length) {
            (0..=1, _) => 32,
            (2..=8, _) => 16,
            (9..=16, _) | (_, 128..) => 8,
            (17..=96, _) => 4,
            _ => 2,
        };
        self.length.min(block * self.layers + block.max(8)) * self.state
    }

    /// Pieces of so many states a layer and direction; and one more where two directions meet.
    fn of_layers(&self, groups: &[u128]) -> u128 {
        let of_one = self.layers * self.state;
        let meeting = match (self.directions, self.persistent) {
            (1, _) => 0,
            (_, true) => 2,
            (_, false) => 4,
        };
        groups.iter().map(|n| round(n * self.directions * of_one)).sum::<u128>() + round(meeting * of_one)
    }
}

/// PyTorch's choice among cuDNN's algorithms. A hidden size up to 192 persists in f32 and f16, for which cuDNN has such kernels; and so does an f16
/// LSTM of one layer and direction whose sizes are multiples of 128, with a batch of a multiple of 8 up to 128, on GPUs with
/// multiprocessors enough.
fn is_persistent(gpu: &Gpu, r: &Recurrent) -> bool {
    let large = gpu.capability.0 >= 8 && gpu.capability.1 != 6 && gpu.multiprocessors >= 98;
    let small_hidden = r.hidden <= 192 && matches!(r.dtype, DType::F32 | DType::F16);
    let one = r.layers == 1 && !r.bidirectional;
    let sizes =
        r.hidden <= 1024 && r.hidden.is_multiple_of(128) && r.input.is_multiple_of(128) && r.batch <= 128 && r.batch.is_multiple_of(8);
    small_hidden || (large && r.cell == Cell::Lstm && r.dtype == DType::F16 && one && sizes)
}

fn round(bytes: u128) -> u128 {
    bytes.next_multiple_of(ALIGNMENT)
}

fn pieces(sizes: &[u128]) -> u128 {
    sizes.iter().map(|&bytes| round(bytes)).sum()
}
