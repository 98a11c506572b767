//! The graphs of scaled dot products: each operation by itself, and in the order and shape in which cuDNN's engines know them.
//!
//! Invariant: a tensor's name in a graph is its place among the call's strides, or one of those below.

use super::bindings::cudnn::{self as sys, cudnnDataType_t as Type, cudnnPointwiseMode_t as Pointwise, cudnnReduceTensorOp_t as Reduce};

use super::dnn::data_type;
use super::error::CudaError;
use super::graph::{Parts, contiguous};
use super::operations::{Node, Operations, Place};
use crate::scratch::Attention;

/// A call as far as its plan depends on it: with the strides of its tensors.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttentionKey {
    pub(super) call: Attention,
    /// Of queries, keys, values, output and, in backward, their gradients, that of the output first.
    pub(super) strides: Vec<[u64; 4]>,
    /// Whether logarithms of sums are kept.
    pub(super) keeps: bool,
}

impl AttentionKey {
    /// With the strides that an attention layer's tensors have while it is trained: queries, keys and values are parts of one projection,
    /// all else has a tensor of its own, and heads lie beside each other.
    pub(super) fn of_layer(call: &Attention) -> Self {
        let Attention { heads, kv_heads, length, head, .. } = *call;
        let within = |features: u64| [length * features, head, features, 1];
        let (projection, queries, keys) = (within((heads + 2 * kv_heads) * head), within(heads * head), within(kv_heads * head));
        let mut strides = vec![projection, projection, projection, queries];
        if call.backward {
            strides.extend([queries, queries, keys, keys]);
        }
        Self { call: *call, strides, keeps: true }
    }
}

/// Names of tensors in plans; up to [`GRAD_V`] they are places among the strides.
const Q: i64 = 0;
const K: i64 = 1;
const V: i64 = 2;
const OUT: i64 = 3;
const GRAD_OUT: i64 = 4;
const GRAD_Q: i64 = 5;
const GRAD_K: i64 = 6;
const GRAD_V: i64 = 7;
pub(super) const LOG_SUMS: i64 = 8;
/// Backward's own: the sum of each row's gradient times output, and the queries' gradient in f32. They are in the workspace.
pub(super) const ROW_SUMS: i64 = 9;
pub(super) const SUM_Q: i64 = 10;
/// Numbers: what scores are multiplied with, what masked scores are, and what rows' sums are multiplied with: 1, as no weight is dropped.
pub(super) const NUMBERS: [i64; 3] = [SCALE, MASKED, ONE];
const SCALE: i64 = 11;
const MASKED: i64 = 12;
const ONE: i64 = 13;

/// All parts of a call's graph, the graph last.
pub(super) fn graph(handle: sys::cudnnHandle_t, key: &AttentionKey) -> Result<Parts, CudaError> {
    let mut call = Call { graph: Operations::default(), key };
    if key.call.backward { call.backward() } else { call.forward() }?;
    call.graph.finish(handle)
}

/// A graph in the making.
struct Call<'a> {
    graph: Operations,
    key: &'a AttentionKey,
}

/// Dimensions with the last two exchanged.
const fn exchanged([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    [a, b, d, c]
}

impl Call<'_> {
    fn half(&self) -> Type {
        data_type(self.key.call.dtype)
    }

    /// Of queries, or of keys and values.
    fn rows(&self, heads: u64) -> [u64; 4] {
        let Attention { batch, length, head, .. } = self.key.call;
        [batch, heads, length, head]
    }

    fn scores_dims(&self) -> [u64; 4] {
        let Attention { batch, heads, length, .. } = self.key.call;
        [batch, heads, length, length]
    }

    fn figures_dims(&self) -> [u64; 4] {
        let Attention { batch, heads, length, .. } = self.key.call;
        [batch, heads, length, 1]
    }

    /// A tensor of the call, by its place among the strides, which is its name.
    fn given(&mut self, name: i64) -> Result<Node, CudaError> {
        let (dims, strides) = self.shape(name);
        self.graph.tensor(Place::Memory(name), self.half(), dims, strides)
    }

    /// The same, features before positions.
    fn given_exchanged(&mut self, name: i64) -> Result<Node, CudaError> {
        let (dims, strides) = self.shape(name);
        self.graph.tensor(Place::Memory(name), self.half(), exchanged(dims), exchanged(strides))
    }

    fn shape(&self, name: i64) -> ([u64; 4], [u64; 4]) {
        let Attention { heads, kv_heads, .. } = self.key.call;
        let of_keys = matches!(name, K | V | GRAD_K | GRAD_V);
        (self.rows(if of_keys { kv_heads } else { heads }), self.key.strides[name as usize])
    }

    fn log_sums(&mut self) -> Result<Node, CudaError> {
        let dims = self.figures_dims();
        self.graph.tensor(Place::Memory(LOG_SUMS), Type::CUDNN_DATA_FLOAT, dims, contiguous(dims))
    }

    fn scores(&mut self) -> Result<Node, CudaError> {
        self.graph.between(Type::CUDNN_DATA_FLOAT, self.scores_dims())
    }

    fn figures(&mut self) -> Result<Node, CudaError> {
        self.graph.between(Type::CUDNN_DATA_FLOAT, self.figures_dims())
    }

    /// One of two scores.
    fn combine(&mut self, mode: Pointwise, of: [Node; 2]) -> Result<Node, CudaError> {
        let to = self.scores()?;
        self.graph.pointwise(mode, &of, to)
    }

    fn exponential(&mut self, x: Node) -> Result<Node, CudaError> {
        let to = self.scores()?;
        self.graph.pointwise(Pointwise::CUDNN_POINTWISE_EXP, &[x], to)
    }

    /// Scores, with those of later positions as low as can be.
    fn masked(&mut self, scores: Node) -> Result<Node, CudaError> {
        if !self.key.call.causal {
            return Ok(scores);
        }
        let dims = self.scores_dims();
        let mut indices = |axis| {
            let to = self.graph.between(Type::CUDNN_DATA_INT32, dims)?;
            self.graph.index(axis, scores, to)
        };
        let (row, column) = (indices(2)?, indices(3)?);
        let visible = self.graph.between(Type::CUDNN_DATA_BOOLEAN, dims)?;
        let visible = self.graph.pointwise(Pointwise::CUDNN_POINTWISE_CMP_GE, &[row, column], visible)?;
        let (lowest, to) = (self.graph.number(MASKED)?, self.scores()?);
        self.graph.pointwise(Pointwise::CUDNN_POINTWISE_BINARY_SELECT, &[scores, lowest, visible], to)
    }

    fn forward(&mut self) -> Result<(), CudaError> {
        let (q, k, v) = (self.given(Q)?, self.given_exchanged(K)?, self.given(V)?);
        let scale = self.graph.number(SCALE)?;
        let products = self.scores()?;
        self.graph.matmul([q, k], products)?;
        let scaled = self.combine(Pointwise::CUDNN_POINTWISE_MUL, [products, scale])?;
        let scores = self.masked(scaled)?;
        let largest = self.figures()?;
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_MAX, scores, largest)?;
        let lowered = self.combine(Pointwise::CUDNN_POINTWISE_SUB, [scores, largest])?;
        let weights = self.exponential(lowered)?;
        let sums = self.figures()?;
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_ADD, weights, sums)?;
        if self.key.keeps {
            let logarithm = self.figures()?;
            self.graph.pointwise(Pointwise::CUDNN_POINTWISE_LOG, &[sums], logarithm)?;
            let log_sums = self.log_sums()?;
            self.graph.pointwise(Pointwise::CUDNN_POINTWISE_ADD, &[largest, logarithm], log_sums)?;
        }
        let divided = self.graph.between(self.half(), self.scores_dims())?;
        self.graph.pointwise(Pointwise::CUDNN_POINTWISE_DIV, &[weights, sums], divided)?;
        let out = self.given(OUT)?;
        self.graph.matmul([divided, v], out)?;
        Ok(())
    }

    fn backward(&mut self) -> Result<(), CudaError> {
        let Attention { heads, .. } = self.key.call;
        let float = Type::CUDNN_DATA_FLOAT;
        let (q, k, v) = (self.given(Q)?, self.given_exchanged(K)?, self.given_exchanged(V)?);
        let (out, grad, log_sums) = (self.given(OUT)?, self.given(GRAD_OUT)?, self.log_sums()?);
        let (scale, one) = (self.graph.number(SCALE)?, self.graph.number(ONE)?);

        let rows = self.rows(heads);
        let by_out = self.graph.between(float, rows)?;
        self.graph.pointwise(Pointwise::CUDNN_POINTWISE_MUL, &[grad, out], by_out)?;
        let summed = self.figures()?;
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_ADD, by_out, summed)?;
        let dims = self.figures_dims();
        let row_sums = self.graph.tensor(Place::Memory(ROW_SUMS), float, dims, contiguous(dims))?;
        self.graph.pointwise(Pointwise::CUDNN_POINTWISE_MUL, &[summed, one], row_sums)?;

        let products = self.scores()?;
        self.graph.matmul([q, k], products)?;
        let scaled = self.combine(Pointwise::CUDNN_POINTWISE_MUL, [products, scale])?;
        let lowered = self.combine(Pointwise::CUDNN_POINTWISE_SUB, [scaled, log_sums])?;
        let scores = self.masked(lowered)?;
        let weights = self.exponential(scores)?;
        let turned = self.turned(weights)?;
        self.add_heads([turned, grad], GRAD_V)?;

        let of_weights = self.scores()?;
        self.graph.matmul([grad, v], of_weights)?;
        let centred = self.combine(Pointwise::CUDNN_POINTWISE_SUB, [of_weights, row_sums])?;
        let of_scores = self.combine(Pointwise::CUDNN_POINTWISE_MUL, [centred, weights])?;
        let of_products = self.combine(Pointwise::CUDNN_POINTWISE_MUL, [of_scores, scale])?;
        let turned = self.turned(of_products)?;
        self.add_heads([turned, q], GRAD_K)?;

        let (dims, strides) = self.shape(K);
        let keys = self.graph.tensor(Place::Nowhere, float, dims, strides)?;
        self.graph.reshape(k, keys)?;
        let sum = self.graph.tensor(Place::Memory(SUM_Q), float, rows, contiguous(rows))?;
        self.graph.matmul([of_products, keys], sum)?;
        let grad_q = self.given(GRAD_Q)?;
        self.graph.pointwise(Pointwise::CUDNN_POINTWISE_IDENTITY, &[sum], grad_q)?;
        Ok(())
    }

    /// Scores with rows and columns exchanged, rounded.
    fn turned(&mut self, scores: Node) -> Result<Node, CudaError> {
        let dims = scores.dims;
        let to = self.graph.tensor(Place::Nowhere, self.half(), dims, exchanged(contiguous(dims)))?;
        self.graph.reshape(scores, to)
    }

    /// A product that is the gradient of keys or values, added up over the queries' heads that share them.
    fn add_heads(&mut self, factors: [Node; 2], name: i64) -> Result<(), CudaError> {
        let Attention { heads, kv_heads, .. } = self.key.call;
        let to = self.given(name)?;
        if heads == kv_heads {
            self.graph.matmul(factors, to)?;
            return Ok(());
        }
        let each = self.graph.between(self.half(), self.rows(heads))?;
        self.graph.matmul(factors, each)?;
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_ADD, each, to)?;
        Ok(())
    }
}
