//! Scaled dot products by cuDNN's fused kernels, with the plan that PyTorch takes: the first of the heuristics' list that can be built.
//!
//! The graphs are those that cuDNN's engines know by their shape: each operation of attention by itself. Weights are not dropped here.
//! cuDNN's release or the GPU may lack an engine for a call; whoever asks is told so, and has kernels of its own.

use std::ffi::c_void;

use super::bindings::cudnn::{
    self as sys, cudnnBackendHeurMode_t as Mode, cudnnDataType_t as Type, cudnnPointwiseMode_t as Pointwise,
    cudnnReduceTensorOp_t as Reduce,
};

use super::blas::Workspace;
use super::context::Cuda;
use super::dnn::data_type;
use super::error::CudaError;
use super::graph::{Descriptor, Plan, configurations};
use super::operations::{ALIGNMENT, Node, Operations, Place, contiguous};
use crate::device::Operand;
use crate::scratch::Attention;

/// What an attention reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct AttentionTensors<'a> {
    /// Queries, keys, values, output: (batch, heads, length, features).
    pub tensors: [Operand<'a>; 4],
    /// Address of the logarithm of each row's sum, f32: (batch, heads, length); 0 where nobody keeps it.
    pub log_sums: u64,
    /// In backward the gradient of the output, then those of queries, keys and values.
    pub gradients: Option<[Operand<'a>; 4]>,
    /// Scores are multiplied with it.
    pub scale: f64,
}

/// A call as far as its plan depends on it: with the strides of its tensors, and whether logarithms of sums are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttentionKey {
    call: Attention,
    strides: Vec<[u64; 4]>,
    keeps: bool,
}

/// An attention ready to run. What the plan was made of lives as long as it does.
#[derive(Debug)]
pub(super) struct AttentionPlan {
    plan: Plan,
    _made_of: Vec<Descriptor>,
}

/// Names of tensors in plans; up to [`GRAD_V`] they are places in [`AttentionTensors`].
const Q: i64 = 0;
const K: i64 = 1;
const V: i64 = 2;
const OUT: i64 = 3;
const GRAD_OUT: i64 = 4;
const GRAD_Q: i64 = 5;
const GRAD_K: i64 = 6;
const GRAD_V: i64 = 7;
const LOG_SUMS: i64 = 8;
/// Backward's own: the sum of each row's gradient times output, and the queries' gradient in f32. They are in the workspace.
const ROW_SUMS: i64 = 9;
const SUM_Q: i64 = 10;
/// Numbers: what scores are multiplied with, what masked scores are, and what rows' sums are multiplied with: 1, as no weight is dropped.
const NUMBERS: [i64; 3] = [SCALE, MASKED, ONE];
const SCALE: i64 = 11;
const MASKED: i64 = 12;
const ONE: i64 = 13;

impl Cuda {
    /// Whether cuDNN computes this call; then its workspace is known from here on. A rehearsal believes that it does.
    pub fn plans_attention(&self, call: &Attention, at: &AttentionTensors<'_>) -> bool {
        if call.dropout || !call.dtype.is_half() || !at.is_readable() {
            return false;
        }
        self.rehearses || self.attempt(|| self.attention_plan(at.key(call))).unwrap_or(false)
    }

    fn attention_plan(&self, key: AttentionKey) -> Result<bool, CudaError> {
        if let Some(plan) = self.dnn.attentions.borrow().get(&key) {
            return Ok(plan.is_some());
        }
        let handle = self.dnn_handle()?;
        let plan = match self.counted(|| make(handle, &key)) {
            Ok(plan) => Some(plan),
            Err(CudaError::Call { .. }) => None,
            Err(e) => return Err(e),
        };
        let computes = plan.is_some();
        self.dnn.attentions.borrow_mut().insert(key, plan);
        Ok(computes)
    }

    /// What cuDNN's plan for such a call works in, in bytes, if there is one.
    pub(super) fn attention_workspace(&self, call: &Attention) -> Option<u64> {
        let plans = self.dnn.attentions.borrow();
        let plan = plans.iter().find_map(|(key, plan)| plan.as_ref().filter(|_| key.call == *call))?;
        Some(plan.plan.workspace + kept(call).iter().sum::<u64>())
    }

    /// Computes a call for which there is a plan, if it runs in that workspace; whether it did. A rehearsal believes so.
    pub fn attend(&self, call: &Attention, at: &AttentionTensors<'_>, workspace: Workspace) -> bool {
        self.attempt(|| {
            let handle = self.dnn_handle()?;
            let mut plans = self.dnn.attentions.borrow_mut();
            let entry = plans.get_mut(&at.key(call)).expect("only what was planned is computed");
            let Some(plan) = entry else { return Ok(false) };
            let [sum_q, row_sums] = kept(call);
            if workspace.bytes < sum_q + row_sums + plan.plan.workspace {
                return Ok(false);
            }
            let numbers = [at.scale as f32, f32::MIN, 1.0];
            let (names, pointers) = at.variant(call, &numbers, [workspace.address, workspace.address + sum_q]);
            match plan.plan.execute(handle, &names, &pointers, workspace.address + sum_q + row_sums) {
                Ok(()) => Ok(true),
                Err(e) if e.is_of_the_plan() => {
                    *entry = None;
                    Ok(false)
                }
                Err(e) => Err(e.within(&call.to_string())),
            }
        })
        .unwrap_or(true)
    }
}

impl AttentionTensors<'_> {
    fn key(&self, call: &Attention) -> AttentionKey {
        let strides = |t: &Operand<'_>| <[u64; 4]>::try_from(&t.meta.strides[..]).expect("attention has four dimensions");
        let strides = self.tensors.iter().chain(self.gradients.iter().flatten()).map(strides).collect();
        AttentionKey { call: *call, strides, keeps: self.log_sums != 0 }
    }

    /// Names and pointers of all that a plan works on: live blocks of its shapes, as whoever owns them promises, and [`NUMBERS`].
    fn variant(&self, call: &Attention, numbers: &[f32; 3], kept: [u64; 2]) -> (Vec<i64>, Vec<*mut c_void>) {
        let tensors = self.tensors.iter().chain(self.gradients.iter().flatten()).map(|t| t.address);
        let mut all: Vec<(i64, *mut c_void)> = (0..).zip(tensors.map(|address| address as *mut c_void)).collect();
        if self.log_sums != 0 {
            all.push((LOG_SUMS, self.log_sums as *mut c_void));
        }
        if call.backward {
            all.extend([SUM_Q, ROW_SUMS].into_iter().zip(kept.map(|address| address as *mut c_void)));
        }
        let used = [true, call.causal, call.backward];
        let host = numbers.iter().map(|number| std::ptr::from_ref(number).cast_mut().cast());
        all.extend(NUMBERS.into_iter().zip(host).zip(used).filter_map(|(number, used)| used.then_some(number)));
        all.into_iter().unzip()
    }

    /// Whether all tensors lie as the kernels load them: features beside each other, rows aligned.
    fn is_readable(&self) -> bool {
        let aligned = |bytes: u64| bytes.is_multiple_of(ALIGNMENT);
        let readable = |t: &Operand<'_>| {
            let (last, others) = t.meta.strides.split_last().expect("attention has four dimensions");
            let bytes = t.meta.dtype.bytes();
            *last == 1 && aligned(t.address) && t.meta.numel() > 0 && others.iter().all(|&s| s > 0 && aligned(s * bytes))
        };
        self.tensors.iter().chain(self.gradients.iter().flatten()).all(readable)
    }
}

/// Bytes of what backward keeps in the workspace beside the plan's own: the queries' gradient in f32, and the rows' sums.
fn kept(call: &Attention) -> [u64; 2] {
    let rows = call.batch * call.heads * call.length * 4;
    if call.backward { [rows * call.head, rows] } else { [0, 0] }
}

fn make(handle: sys::cudnnHandle_t, key: &AttentionKey) -> Result<AttentionPlan, CudaError> {
    let mut of = Call { graph: Operations::default(), key };
    if key.call.backward { of.backward() } else { of.forward() }?;
    let mut made_of = of.graph.finish(handle)?;
    let graph = made_of.last().expect("the graph comes last");
    let (heuristics, configurations) = configurations(graph, Mode::CUDNN_HEUR_MODE_A)?;
    let mut refused = CudaError::no_engine();
    for config in configurations {
        match Plan::of(handle, &config) {
            Ok(plan) => {
                made_of.extend([heuristics, config]);
                // What refers to another goes before it.
                made_of.reverse();
                return Ok(AttentionPlan { plan, _made_of: made_of });
            }
            Err(e) => refused = e,
        }
    }
    Err(refused)
}

/// A call's graph in the making.
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
