//! Scaled dot products by cuDNN's fused kernels, with the plan that PyTorch takes: the first of the heuristics' list that can be built.
//!
//! Weights are not dropped here. cuDNN's release or the GPU may lack an engine for a call; whoever asks is told so, and has kernels of its
//! own.

use std::ffi::c_void;

use super::bindings::cudnn::{self as sys, cudnnBackendHeurMode_t as Mode};

use super::attention_graph::{AttentionKey, LOG_SUMS, NUMBERS, ROW_SUMS, SUM_Q, graph};
use super::blas::Workspace;
use super::context::Cuda;
use super::error::CudaError;
use super::graph::{ALIGNMENT, Parts, Plan, configurations};
use super::library::Library;
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

/// An attention ready to run. What the plan was made of lives as long as it does.
#[derive(Debug)]
pub(super) struct AttentionPlan {
    plan: Plan,
    _made_of: Parts,
}

impl Cuda {
    /// Whether cuDNN computes this call; then its workspace is known from here on. A rehearsal believes that it does.
    pub fn plans_attention(&self, call: &Attention, at: &AttentionTensors<'_>) -> bool {
        if !is_fused(call) || !at.is_readable() {
            return false;
        }
        self.rehearses || self.attempt(|| self.attention_plan(at.key(call))).unwrap_or(false)
    }

    fn attention_plan(&self, key: AttentionKey) -> Result<bool, CudaError> {
        if let Some(plan) = self.dnn.attentions.borrow().get(&key) {
            return Ok(plan.is_some());
        }
        let plan = match self.dnn_handle().and_then(|handle| self.counted(|| make(handle, &key))) {
            Ok(plan) => Some(plan),
            Err(CudaError::Call { .. } | CudaError::Missing(_)) => None,
            Err(e) => return Err(e),
        };
        let computes = plan.is_some();
        self.dnn.attentions.borrow_mut().insert(key, plan);
        Ok(computes)
    }

    /// What cuDNN's plan for such a call works in, in bytes, if it has one. Strides play no part in that: where none is planned yet, it
    /// is with those of the attention layer, which are the next to be asked for.
    pub(super) fn attention_workspace(&self, call: &Attention) -> Result<Option<u64>, CudaError> {
        let known = || {
            let plans = self.dnn.attentions.borrow();
            let plan = plans.iter().find_map(|(key, plan)| plan.as_ref().filter(|_| key.call == *call))?;
            Some(plan.plan.workspace + kept(call).iter().sum::<u64>())
        };
        let planned = known().is_some() || (is_fused(call) && self.attention_plan(AttentionKey::of_layer(call))?);
        Ok(if planned { known() } else { None })
    }

    /// Computes a call for which there is a plan, if it runs in that workspace; whether it did. A rehearsal believes so.
    ///
    /// # Panics
    /// Nobody has asked for a plan for the call.
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

/// The first release whose backward neither wants its sums cleared beforehand nor lengths that are multiples of 128.
const SOUND: usize = 91_501;

/// Whether graphs are made for such calls.
fn is_fused(call: &Attention) -> bool {
    // SAFETY: the library is loaded; the call takes nothing and gives a number.
    let release = || Library::Cudnn.find().is_ok().then(|| unsafe { sys::cudnnGetVersion() });
    !call.dropout && call.dtype.is_half() && release().is_some_and(|release| release >= SOUND)
}

/// Bytes of what backward keeps in the workspace beside the plan's own: the queries' gradient in f32, and the rows' sums.
fn kept(call: &Attention) -> [u64; 2] {
    let rows = call.batch * call.heads * call.length * 4;
    if call.backward { [rows * call.head, rows] } else { [0, 0] }
}

fn make(handle: sys::cudnnHandle_t, key: &AttentionKey) -> Result<AttentionPlan, CudaError> {
    let mut made_of = graph(handle, key)?;
    let (heuristics, configurations) = configurations(made_of.last(), Mode::CUDNN_HEUR_MODE_A)?;
    let mut refused = CudaError::no_engine();
    for config in configurations {
        match Plan::of(handle, &config) {
            Ok(plan) => {
                made_of.push(heuristics);
                made_of.push(config);
                return Ok(AttentionPlan { plan, _made_of: made_of });
            }
            Err(e) => refused = e,
        }
    }
    Err(refused)
}
