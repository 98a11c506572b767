//! `scaled_dot_product_attention` keeps its inputs, its output and the logarithm of each row's sum; scores are computed again in backward.
//! What is allocated is what PyTorch's implementation allocates, and where those have room the kernels work in it. What PyTorch leaves to
//! cuDNN is left to it here as well, where it can.

use super::backend::Backend;
use super::kernel_cuda::{Launch, Rows};
use super::kernel_host;
use super::rule::ScaledDotProductAttention;
use crate::device::cuda::AttentionTensors;
use crate::device::host::Philox;
use crate::exec::{CallWorkspace, Exec, Result, Stream};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::scratch::{Attention, Request};
use crate::tensor::{Storage, Tensor};

/// What both directions share.
pub(super) struct Sizes {
    pub(super) batch: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) length: u64,
    pub(super) head: u64,
}

impl Sizes {
    fn of(q: &TensorMeta, k: &TensorMeta) -> Self {
        let (q, kv_heads) = (q.shape.dims(), k.shape.dims()[1]);
        Self { batch: q[0], heads: q[1], kv_heads, length: q[2], head: q[3] }
    }

    fn rows(&self) -> u64 {
        self.batch * self.heads * self.length
    }
}

impl ScaledDotProductAttention {
    fn drops(&self) -> bool {
        self.dropout > 0.0
    }

    /// Heads beside each other, or the dimensions in the order in which `like` lies.
    fn layout(&self, like: &TensorMeta) -> TensorMeta {
        if self.backend != Backend::Efficient {
            return like.dense();
        }
        let d = like.shape.dims();
        let shape = Shape::new([d[0], d[2], d[1], d[3]]).expect("as many elements as before");
        TensorMeta::contiguous(shape, like.dtype).transposed(1, 2)
    }

    /// What cuDNN is asked.
    fn call(&self, dtype: DType, s: &Sizes, backward: bool) -> Attention {
        let Sizes { batch, heads, kv_heads, length, head } = *s;
        let (causal, dropout) = (self.causal, self.drops());
        Attention { backward, dtype, batch, heads, kv_heads, length, head, causal, dropout }
    }

    /// The logarithms of sums, a row of them for each head.
    fn log_sums(exec: &Exec, dtype: DType, s: &Sizes, pitch: u64) -> Result<Tensor> {
        let shape = Shape::new([s.batch, s.heads, pitch]).expect("fewer elements than the output has");
        exec.empty(TensorMeta::contiguous(shape, dtype.accumulator()))
    }

    fn bytes(exec: &Exec, n: u64) -> Result<Tensor> {
        exec.empty(TensorMeta::contiguous(Shape::new([n]).expect("a few bytes"), DType::U8))
    }
}

/// A call that cuDNN computes if it has a plan for it.
struct Fused<'a> {
    call: &'a Attention,
    at: &'a AttentionTensors<'a>,
    planned: bool,
}

impl<'a> Fused<'a> {
    /// Asks for a plan, so that what is asked next, the workspace, is the plan's.
    fn plans(exec: &Exec, call: &'a Attention, at: &'a AttentionTensors<'a>) -> Self {
        let mut planned = false;
        exec.on_cuda(|gpu| planned = gpu.plans_attention(call, at));
        Self { call, at, planned }
    }

    /// By the plan, or by the kernels here.
    fn run(&self, exec: &Exec, workspace: &CallWorkspace, own: impl FnOnce()) {
        let mut done = false;
        if self.planned {
            exec.on_cuda(|gpu| done = gpu.attend(self.call, self.at, workspace.on_cuda()));
        }
        if !done {
            own();
        }
    }
}

/// How many parts FlashAttention's forward cuts the keys into (`num_splits_heuristic`).
fn splits(multiprocessors: u32, s: &Sizes) -> u64 {
    let row_blocks = (s.batch * s.heads * s.length.div_ceil(64)) as f32;
    let room = 2 * u64::from(multiprocessors);
    if row_blocks >= 0.8 * room as f32 {
        return 1;
    }
    let block = match s.head {
        ..=64 => 256,
        65..=128 => 128,
        _ => 64,
    };
    let blocks = s.length.div_ceil(block);
    let efficiency = |n: u64| {
        if n > 1 && blocks.div_ceil(n) == blocks.div_ceil(n - 1) {
            return 0.0;
        }
        let waves = row_blocks * n as f32 / room as f32;
        waves / waves.ceil()
    };
    let most = blocks.min(room).min(128);
    let best = (1..=most).map(efficiency).fold(0.0, f32::max);
    (1..=most).find(|&n| efficiency(n) > 0.0 && efficiency(n) >= 0.85 * best).unwrap_or(1)
}

/// Features that a row of a head takes in FlashAttention's f32 buffers.
fn padded(head: u64) -> u64 {
    let step = if head > 128 { 64 } else { 32 };
    head.div_ceil(step) * step
}

/// What memory-efficient attention's backward works in: a piece of the queries' gradient for each tile, with a lock.
fn tiles(capability: (u32, u32), dtype: DType, s: &Sizes) -> u64 {
    let large = if dtype.is_half() {
        match (s.head, capability) {
            (..=64, _) => (64, 64),
            (..=96, (8, 6 | 9)) => (128, 64),
            (..=128, (8.., _)) => (128, 128),
            _ => (128, 64),
        }
    } else if s.head <= 64 || capability.0 < 8 {
        (64, 64)
    } else {
        (128, 64)
    };
    let (rows, columns) = large;
    let pairs = s.batch * s.heads;
    let bytes = pairs * s.length.div_ceil(rows) * s.head.div_ceil(columns) * (rows * columns * 4 + 16);
    // Keys and values whose gradients do not fit into registers are summed in f32.
    let apart = dtype.is_half() && s.head > 128;
    bytes + if apart { pairs * 8 * (s.length.div_ceil(columns) * columns) * (s.head.div_ceil(128) * 128) } else { 0 }
}

impl OpKernel for ScaledDotProductAttention {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        // By name, as PyTorch lets go of them: `key`, `query`, `value`.
        Ok([1, 0, 2].map(|i| Some(inputs[i].clone())).into())
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Forward> {
        let (q, needed) = (inputs[0], needs.contains(&true));
        let s = Sizes::of(q.meta(), inputs[1].meta());
        let stream = self.drops().then(|| exec.generator().draw());
        let run = |out: &Tensor, log_sums: Option<&Tensor>| self.attend(exec, inputs, out, log_sums, stream);
        let (out, saved) = match self.backend {
            Backend::Cudnn => {
                let (seed, offset) = (Self::bytes(exec, 8)?, Self::bytes(exec, 8)?);
                let out = exec.empty(self.layout(q.meta()))?;
                let log_sums = if needed { Some(Self::log_sums(exec, q.dtype(), &s, s.length)?) } else { None };
                let call = self.call(q.dtype(), &s, false);
                let at = AttentionTensors {
                    tensors: [inputs[0], inputs[1], inputs[2], &out].map(Tensor::operand),
                    log_sums: log_sums.as_ref().map_or(0, |t| t.operand().address),
                    gradients: None,
                    scale: self.scale(),
                };
                let plans = Fused::plans(exec, &call, &at);
                let workspace = exec.call_workspace(&Request::Attention(call))?;
                plans.run(exec, &workspace, || run(&out, log_sums.as_ref()));
                let saved: Vec<Tensor> = log_sums.into_iter().chain([out.clone(), seed, offset]).collect();
                (out, saved)
            }
            Backend::Flash => {
                let out = exec.empty(self.layout(q.meta()))?;
                let log_sums = Self::log_sums(exec, q.dtype(), &s, s.length)?;
                let parts = if self.drops() { 1 } else { splits(exec.gpu().multiprocessors, &s) };
                let (mut sums_of_parts, mut parts_of_out) = (None, None);
                if parts > 1 {
                    sums_of_parts = Some(exec.scratch(4 * parts * s.rows())?);
                    parts_of_out = Some(exec.scratch(4 * parts * s.rows() * padded(s.head))?);
                }
                // The state of the random numbers; eight bytes that nobody reads; with dropout the state once more.
                let mut state = Self::bytes(exec, 16)?;
                let unused = Self::bytes(exec, 8)?;
                if self.drops() {
                    state = Self::bytes(exec, 16)?;
                }
                run(&out, Some(&log_sums));
                drop(sums_of_parts);
                drop(parts_of_out);
                let saved = vec![log_sums, out.clone(), state, unused];
                (out, saved)
            }
            Backend::Efficient | Backend::Math => {
                let out = exec.empty(self.layout(q.meta()))?;
                let log_sums = if needed { Some(Self::log_sums(exec, q.dtype(), &s, s.length.div_ceil(32) * 32)?) } else { None };
                // Outputs of half types and large heads are added up in f32.
                let sums = if q.dtype().is_half() && s.head > 128 { 4 * s.rows() * s.head } else { 0 };
                let _sums = exec.scratch(sums)?;
                run(&out, log_sums.as_ref());
                let saved: Vec<Tensor> = log_sums.into_iter().chain([out.clone()]).collect();
                (out, saved)
            }
        };
        Ok(Forward { outputs: vec![out], saved: if needed { saved } else { Vec::new() }, stream })
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (log_sums, out) = (at.saved(3), at.saved(4));
        let s = Sizes::of(&at.inputs[0], &at.inputs[1]);
        let dtype = out.dtype();
        let mut readable = [at.grad().clone(), out.clone()];
        if self.backend == Backend::Flash {
            for t in &mut readable {
                let by_positions = t.meta().transposed(1, 2);
                if !by_positions.is_contiguous() {
                    *t = exec.clone_as(t, by_positions.like().transposed(1, 2))?;
                }
            }
        }
        let [grad, out] = &readable;
        let gradients =
            [exec.empty(self.layout(&at.inputs[0]))?, exec.empty(self.layout(&at.inputs[1]))?, exec.empty(self.layout(&at.inputs[2]))?];
        // A figure a row, in f32, is all that the kernels here need; its place is whatever PyTorch has for that.
        match self.backend {
            Backend::Cudnn => {
                let call = self.call(dtype, &s, true);
                let of = AttentionTensors {
                    tensors: [at.saved(1), at.saved(0), at.saved(2), out].map(Tensor::operand),
                    log_sums: log_sums.operand().address,
                    gradients: Some([grad, &gradients[0], &gradients[1], &gradients[2]].map(Tensor::operand)),
                    scale: self.scale(),
                };
                let plans = Fused::plans(exec, &call, &of);
                let workspace = exec.call_workspace(&Request::Attention(call))?;
                plans.run(exec, &workspace, || {
                    self.differentiate(exec, at, [grad, out, log_sums], &gradients, workspace.on_cuda().address);
                });
            }
            Backend::Flash => {
                let rows = s.batch * s.heads * s.length.div_ceil(128) * 128;
                let sums = exec.scratch(4 * rows)?;
                let of_q = exec.scratch(4 * rows * padded(s.head))?;
                let mut of_each_head = Vec::new();
                if s.kv_heads < s.heads {
                    of_each_head = vec![exec.scratch(out.meta().bytes())?, exec.scratch(out.meta().bytes())?];
                }
                self.differentiate(exec, at, [grad, out, log_sums], &gradients, sums.address());
                while of_each_head.pop().is_some() {}
                drop(of_q);
            }
            Backend::Efficient | Backend::Math => {
                let sums = Self::row_sums(exec, &s, out)?;
                let tiles = exec.scratch(tiles(exec.gpu().capability, dtype, &s))?;
                self.differentiate(exec, at, [grad, out, log_sums], &gradients, sums.address());
                drop(sums);
                drop(tiles);
            }
        }
        Ok(gradients.into_iter().zip(at.needs).map(|(g, &needed)| needed.then_some(g)).collect())
    }
}

impl ScaledDotProductAttention {
    /// Where memory-efficient attention has the sums of gradient times output: written by a kernel for half types, by operators for f32.
    fn row_sums(exec: &Exec, s: &Sizes, out: &Tensor) -> Result<Storage> {
        if out.dtype().is_half() {
            return exec.scratch(4 * s.rows());
        }
        let product = exec.scratch(out.meta().bytes())?;
        let sums = exec.scratch(4 * s.rows())?;
        if s.heads == 1 || s.length == 1 {
            drop(product);
            return Ok(sums);
        }
        let by_heads = exec.scratch(4 * s.rows())?;
        drop(sums);
        drop(product);
        Ok(by_heads)
    }

    fn scale(&self) -> f64 {
        1.0 / (self.features as f64).sqrt()
    }

    fn attend(&self, exec: &Exec, inputs: &[&Tensor], out: &Tensor, log_sums: Option<&Tensor>, stream: Option<Stream>) {
        let [q, k, v] = [inputs[0], inputs[1], inputs[2]].map(Tensor::operand);
        let s = Sizes::of(q.meta, k.meta);
        exec.on_host(|host| {
            let settings = self.settings(&s, stream);
            kernel_host::forward(host, &settings, [q, k, v], out.operand(), log_sums.map(Tensor::operand));
        });
        exec.on_cuda(|gpu| {
            let rows = Rows::new(log_sums.map_or(0, |t| t.operand().address), log_sums.map_or(0, |t| t.shape().last()));
            let launch = Launch::new(gpu, out.dtype(), &s, self.scale(), self.causal, self.keep(), stream);
            launch.forward(gpu, [q, k, v, out.operand()], rows);
        });
    }

    /// Gradients of q, k and v; `sums`: room for a figure a row.
    fn differentiate(&self, exec: &Exec, at: &Backward<'_>, [grad, out, log_sums]: [&Tensor; 3], to: &[Tensor; 3], sums: u64) {
        let [q, k, v] = [at.saved(1), at.saved(0), at.saved(2)].map(Tensor::operand);
        let s = Sizes::of(q.meta, k.meta);
        let [dq, dk, dv] = to.each_ref().map(Tensor::operand);
        exec.on_host(|host| {
            let settings = self.settings(&s, at.stream);
            let reads = [q, k, v, grad.operand(), out.operand(), log_sums.operand()];
            kernel_host::backward(host, &settings, reads, [dq, dk, dv]);
        });
        exec.on_cuda(|gpu| {
            let rows = Rows::new(log_sums.operand().address, log_sums.shape().last());
            let launch = Launch::new(gpu, out.dtype(), &s, self.scale(), self.causal, self.keep(), at.stream);
            launch.backward(gpu, [q, k, v, out.operand()], rows, grad.operand(), sums, [dq, dk, dv]);
        });
    }

    fn keep(&self) -> f64 {
        1.0 - self.dropout
    }

    fn settings(&self, s: &Sizes, stream: Option<Stream>) -> kernel_host::Settings {
        kernel_host::Settings {
            heads: s.heads as usize,
            group: (s.heads / s.kv_heads) as usize,
            length: s.length as usize,
            head: s.head as usize,
            scale: self.scale(),
            causal: self.causal,
            keep: self.keep(),
            philox: stream.map(|Stream { seed, number }| Philox::new(seed, number)),
        }
    }
}
