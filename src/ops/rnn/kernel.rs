//! `rnn` keeps its arguments, its output and, while training, cuDNN's reserve. The host needs none: it computes the steps anew.

use super::kernel_host::Given;
use super::rule::Rnn;
use crate::device::cuda::{RecurrentGradients, RecurrentTensors, Workspace};
use crate::exec::{CallWorkspace, Exec, Result};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::scratch::{Buffer, Request};
use crate::tensor::Tensor;

/// The first two dimensions exchanged.
fn exchange(t: &Tensor) -> Tensor {
    let meta = t.meta();
    let (mut dims, mut strides) = (meta.shape.dims().to_vec(), meta.strides.clone());
    dims.swap(0, 1);
    strides.swap(0, 1);
    t.alias(TensorMeta { shape: Shape::new(dims).expect("as many elements as before"), dtype: meta.dtype, strides })
}

impl Rnn {
    fn asked(&self, exec: &Exec, buffer: Buffer, x: &TensorMeta) -> u64 {
        exec.asked(&Request::Recurrent(self.call(buffer, x)))
    }

    fn workspace(&self, exec: &Exec, x: &TensorMeta) -> Result<CallWorkspace> {
        exec.call_workspace(&Request::Recurrent(self.call(Buffer::Workspace, x)))
    }

    /// Whether the weights lie in one buffer, as cuDNN wants them. Those of a bf16 module do not.
    fn lie_flat(weights: &[&Tensor]) -> bool {
        weights.iter().all(|w| w.shares_storage(weights[0])) && (weights.len() == 1 || weights[0].dtype() != DType::BF16)
    }

    /// A buffer for all weights, of a type.
    fn buffer_of(exec: &Exec, weights: &[&TensorMeta], dtype: DType) -> Result<Tensor> {
        let elements = weights.iter().map(|w| w.numel()).sum::<u64>();
        exec.empty(TensorMeta::contiguous(Shape::new([elements]).expect("the weights were checked together"), dtype))
    }

    /// Where each weight begins in a buffer of all, for an input of that many features.
    fn offsets(&self, features: u64) -> Vec<u64> {
        self.weights(features).expect("the weights were inferred before").into_iter().map(|p| p.offset).collect()
    }
}

/// The part of a buffer that begins at `offset` and has as many elements as `like`.
fn part(buffer: &Tensor, offset: u64, like: &TensorMeta) -> Tensor {
    buffer.alias_at(like.with_dtype(buffer.dtype()), offset)
}

fn address(t: &Tensor) -> u64 {
    t.operand().address
}

/// The addresses of the states that there are; else 0.
fn addresses(states: &[Tensor]) -> [u64; 2] {
    [0, 1].map(|i| states.get(i).map_or(0, address))
}

/// A reserve's place and size; nothing where none is kept.
fn kept(reserve: Option<&Tensor>) -> Workspace {
    reserve.map_or(Workspace { address: 0, bytes: 0 }, |r| Workspace { address: address(r), bytes: r.meta().bytes() })
}

/// Saved: the states and the input, the last argument first; the weights; then the output, then the reserve and the buffer of weights,
/// where there are any.
impl OpKernel for Rnn {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let (first, weights) = inputs.split_at(1 + self.states());
        Ok(first.iter().rev().chain(weights).map(|&t| Some(t.clone())).collect())
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (x, states) = (inputs[0], &inputs[1..1 + self.states()]);
        let weights = &inputs[1 + self.states()..];
        let sequence = exec.contiguous(&exchange(x))?;
        let dims = sequence.shape().dims();
        let shape = Shape::new([dims[0], dims[1], self.hidden * self.directions()]).expect("the output's shape was inferred before");
        let out = exec.empty(TensorMeta::contiguous(shape, x.dtype()))?;
        let last = states.iter().map(|s| exec.empty_like(s)).collect::<Result<Vec<Tensor>>>()?;
        let mut saved = Vec::new();
        let own = if !Self::lie_flat(weights) {
            let metas: Vec<&TensorMeta> = weights.iter().map(|w| w.meta()).collect();
            let buffer = Self::buffer_of(exec, &metas, x.dtype())?;
            for (weight, offset) in weights.iter().zip(self.offsets(dims[2])) {
                exec.copy(weight, &part(&buffer, offset, weight.meta()));
            }
            Some(buffer)
        } else {
            None
        };
        let workspace = self.workspace(exec, x.meta())?;
        if self.training {
            let bytes = self.asked(exec, Buffer::Reserve, x.meta());
            let shape = Shape::new([bytes]).expect("a library asks for fewer bytes than 63 bits count");
            saved.push(exec.empty(TensorMeta::contiguous(shape, DType::U8))?);
        }
        exec.on_host(|host| self.forward_on_host(host, Given { sequence: &sequence, states, weights }, &out));
        exec.on_cuda(|gpu| {
            let first: Vec<Tensor> = states.iter().map(|&s| s.clone()).collect();
            let at = RecurrentTensors {
                x: address(&sequence),
                y: address(&out),
                first: addresses(&first),
                last: addresses(&last),
                weights: address(own.as_ref().unwrap_or(weights[0])),
            };
            gpu.recurrent_forward(&self.call(Buffer::Workspace, x.meta()), &at, workspace.on_cuda(), kept(saved.first()));
        });
        drop(workspace);
        drop(sequence);
        let out = exchange(&out);
        saved.insert(0, out.clone());
        saved.extend(own);
        Ok(Forward { outputs: std::iter::once(out).chain(last).collect(), saved, stream: None })
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let states: Vec<&Tensor> = (0..self.states()).rev().map(|i| at.saved(i)).collect();
        let given = 1 + self.states();
        let weights: Vec<&Tensor> = (given..at.inputs.len()).map(|i| at.saved(i)).collect();
        let x = at.saved(self.states());
        let of_last = states.iter().map(|s| exec.empty_like(s)).collect::<Result<Vec<Tensor>>>()?;
        of_last.iter().for_each(|t| exec.fill(t, 0.0));
        let saved = |i: usize| at.saved.get(at.inputs.len() + i).and_then(Option::as_ref);
        let (out, reserve) = (saved(0).expect("the output is kept"), saved(1));
        let call = self.call(Buffer::Workspace, x.meta());
        let first: Vec<Tensor> = states.iter().map(|&s| s.clone()).collect();
        let of = |sequence: &Tensor| RecurrentTensors {
            x: address(sequence),
            y: address(out),
            first: addresses(&first),
            last: [0, 0],
            weights: address(saved(2).unwrap_or(weights[0])),
        };
        let sequence = exec.contiguous(&exchange(x))?;
        let grad = exec.contiguous(&exchange(at.grad()))?;
        let to_x = exec.empty_like(&sequence)?;
        let to_states = states.iter().map(|s| exec.empty_like(s)).collect::<Result<Vec<Tensor>>>()?;
        let workspace = self.workspace(exec, x.meta())?;
        exec.on_host(|host| self.grad_input_on_host(host, Given { sequence: &sequence, states: &states, weights: &weights }, &grad, &to_x));
        exec.on_cuda(|gpu| {
            let gradients =
                RecurrentGradients { y: address(&grad), last: addresses(&of_last), x: address(&to_x), first: addresses(&to_states) };
            gpu.recurrent_backward_data(&call, &of(&sequence), &gradients, workspace.on_cuda(), kept(reserve));
        });
        drop(workspace);
        drop(grad);
        drop(sequence);
        let sequence = exec.contiguous(&exchange(x))?;
        let metas: Vec<&TensorMeta> = at.inputs[given..].iter().map(|m| &**m).collect();
        let to_weights = Self::buffer_of(exec, &metas, x.dtype())?;
        exec.fill(&to_weights, 0.0);
        let workspace = self.workspace(exec, x.meta())?;
        exec.on_host(|host| {
            self.grad_weights_on_host(
                host,
                Given { sequence: &sequence, states: &states, weights: &weights },
                &exchange(at.grad()),
                &to_weights,
            )
        });
        exec.on_cuda(|gpu| {
            gpu.recurrent_backward_weights(&call, &of(&sequence), address(&to_weights), workspace.on_cuda(), kept(reserve));
        });
        drop(workspace);
        drop(sequence);
        drop(of_last);
        let mut gradients = vec![None; at.inputs.len()];
        gradients[0] = at.needs[0].then(|| exchange(&to_x));
        // The first states' gradients go nowhere, and are behind that of x.
        drop(to_x);
        drop(to_states);
        let offsets = if metas.len() == 1 { vec![0] } else { self.offsets(x.shape().last()) };
        for ((i, meta), offset) in (given..).zip(metas).zip(offsets) {
            gradients[i] = at.needs[i].then(|| part(&to_weights, offset, meta));
        }
        Ok(gradients)
    }
}
