//! What a library is asked to do, as far as its scratch depends on it. A request written as text is its key in a run's file.

use std::fmt;

use crate::meta::DType;

/// One buffer of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// A convolution's workspace.
    Convolution(Convolution),
    /// A buffer of a recurrent network.
    Recurrent(Recurrent),
    /// The workspace of an attention.
    Attention(Attention),
}

/// Which of a convolution's three computations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The output.
    Forward,
    /// The gradient of the input.
    GradInput,
    /// The gradient of the weight.
    GradWeight,
}

/// A two-dimensional convolution. Pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Convolution {
    /// What is computed.
    pub direction: Direction,
    /// Of all tensors.
    pub dtype: DType,
    /// Batch, channels, height, width.
    pub input: [u64; 4],
    /// Output channels, channels of a group, height, width.
    pub weight: [u64; 4],
    /// Steps of the window.
    pub stride: [u64; 2],
    /// Zeros on each side.
    pub padding: [u64; 2],
    /// Distances of the window's elements.
    pub dilation: [u64; 2],
    /// Groups of channels.
    pub groups: u64,
}

/// Which recurrent network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// Long short-term memory: four gates, and a state besides the hidden one.
    Lstm,
    /// Gated recurrent unit: three gates.
    Gru,
}

/// A buffer of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// Freed when the call returns. Forward's while training and both of backward's are one size.
    Workspace,
    /// Kept from forward for backward.
    Reserve,
}

/// A scaled dot product of queries with keys and values of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attention {
    /// Whether it is the gradients that are computed.
    pub backward: bool,
    /// Of all tensors.
    pub dtype: DType,
    /// Samples.
    pub batch: u64,
    /// Heads of the queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Positions.
    pub length: u64,
    /// Features of a head.
    pub head: u64,
    /// Whether a position sees only those before it.
    pub causal: bool,
    /// Whether weights are dropped.
    pub dropout: bool,
}

/// A recurrent network over a padded batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recurrent {
    /// What is asked for.
    pub buffer: Buffer,
    /// The kind.
    pub cell: Cell,
    /// Of all tensors.
    pub dtype: DType,
    /// Samples.
    pub batch: u64,
    /// Positions.
    pub length: u64,
    /// Features of the input.
    pub input: u64,
    /// Size of the hidden state.
    pub hidden: u64,
    /// Layers on top of each other.
    pub layers: u64,
    /// Whether each layer also runs from the end.
    pub bidirectional: bool,
    /// Whether backward will follow.
    pub training: bool,
}

impl Convolution {
    /// Batch, channels, height, width of the output.
    #[must_use]
    pub fn output(&self) -> [u64; 4] {
        let side = |axis: usize| {
            let reach = self.dilation[axis] * (self.weight[axis + 2] - 1) + 1;
            (self.input[axis + 2] + 2 * self.padding[axis] - reach) / self.stride[axis] + 1
        };
        [self.input[0], self.weight[0], side(0), side(1)]
    }

    /// Whether PyTorch computes it with its own kernels, which ask for nothing: depthwise convolutions, but for those f16 ones that cuDNN is known
    /// to be faster at (`use_cudnn_depthwise` and `check_cudnn_depthwise_workload_with_filter` in ATen).
    #[must_use]
    pub fn is_native(&self) -> bool {
        let ([n, c, h, w], [k, _, kh, kw]) = (self.input, self.weight);
        if self.groups == 1 || self.groups != c || !k.is_multiple_of(c) {
            return false;
        }
        let [stride, other] = self.stride;
        if self.dtype != DType::F16 || c < 32 || self.dilation != [1, 1] || (stride != other && h != 1) {
            return true;
        }
        if h == 1 && other == 1 {
            return false;
        }
        if kh != kw || !matches!(kw, 1 | 3 | 5) || w < 7 {
            return true;
        }
        let cudnn = match (other, kw) {
            (1, _) => true,
            (2, 1) if n == 1 => w <= 28,
            (2, 1) => n <= 16 && c >= 128 && w <= 7,
            (2, _) => n == 1 || c >= 512 || (c >= 256 && w >= 28),
            _ => false,
        };
        !cudnn
    }
}

impl Recurrent {
    /// Where cuDNN keeps the weights of each layer and direction: of the input and of the hidden state, the matrix of all gates and their
    /// biases, as elements before them. All matrices come first.
    #[must_use]
    pub fn places(&self) -> Vec<[[u64; 2]; 2]> {
        let directions = if self.bidirectional { 2 } else { 1 };
        let rows = self.cell.gates() * self.hidden;
        let mut places = Vec::new();
        let mut matrix = 0;
        for number in 0..self.layers * directions {
            let columns = if number < directions { self.input } else { self.hidden * directions };
            places.push([[matrix, 0], [matrix + rows * columns, 0]]);
            matrix += rows * (columns + self.hidden);
        }
        let mut bias = matrix;
        for part in places.iter_mut().flatten() {
            part[1] = bias;
            bias += rows;
        }
        places
    }
}

impl Cell {
    /// PyTorch's name, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lstm => "lstm",
            Self::Gru => "gru",
        }
    }

    /// Rows of weights a unit of the hidden state.
    #[must_use]
    pub const fn gates(self) -> u64 {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Convolution(c) => c.fmt(f),
            Self::Recurrent(r) => r.fmt(f),
            Self::Attention(a) => a.fmt(f),
        }
    }
}

impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            Direction::Forward => "forward",
            Direction::GradInput => "grad_input",
            Direction::GradWeight => "grad_weight",
        };
        let ([n, c, h, w], [o, i, kh, kw]) = (self.input, self.weight);
        let ([sh, sw], [ph, pw], [dh, dw]) = (self.stride, self.padding, self.dilation);
        write!(f, "conv2d {direction} {} input {n}x{c}x{h}x{w} weight {o}x{i}x{kh}x{kw}", self.dtype)?;
        write!(f, " stride {sh}x{sw} padding {ph}x{pw} dilation {dh}x{dw} groups {}", self.groups)
    }
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.backward { "backward" } else { "forward" };
        write!(f, "attention {direction} {} batch {} heads {} kv_heads {}", self.dtype, self.batch, self.heads, self.kv_heads)?;
        write!(f, " length {} head {}", self.length, self.head)?;
        f.write_str(if self.causal { " causal" } else { "" })?;
        f.write_str(if self.dropout { " dropout" } else { "" })
    }
}

impl fmt::Display for Recurrent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffer = match self.buffer {
            Buffer::Workspace => "workspace",
            Buffer::Reserve => "reserve",
        };
        write!(f, "{} {buffer} {} batch {} length {}", self.cell.name(), self.dtype, self.batch, self.length)?;
        write!(f, " input {} hidden {} layers {}", self.input, self.hidden, self.layers)?;
        f.write_str(if self.bidirectional { " bidirectional" } else { "" })?;
        f.write_str(if self.training { " training" } else { " inference" })
    }
}
