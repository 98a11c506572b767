//! LSTM and GRU by cuDNN, with PyTorch's descriptors: padded batches of one length, length outermost, two biases a gate.

use std::ffi::c_void;

use super::bindings::cudnn::{
    self as sys, cudnnDirectionMode_t as Directions, cudnnForwardMode_t as Mode, cudnnMathType_t as Math, cudnnRNNAlgo_t as Algorithm,
    cudnnRNNBiasMode_t as Bias, cudnnRNNDataLayout_t as Layout, cudnnRNNInputMode_t as Input, cudnnRNNMode_t as CellMode,
    cudnnWgradMode_t as Adding,
};

use super::blas::Workspace;
use super::context::Cuda;
use super::dnn::{data_type, int, status, sum_type};
use super::error::CudaError;
use crate::gpu::Gpu;
use crate::meta::DType;
use crate::scratch::{Buffer, Cell, Recurrent};

/// `CUDNN_RNN_PADDED_IO_ENABLED`.
const PADDED: u32 = 1;

/// Defines an owner of one of cuDNN's descriptors.
macro_rules! descriptor {
    ($name:ident, $raw:ty, $create:ident, $destroy:ident) => {
        #[derive(Debug)]
        struct $name($raw);

        impl $name {
            fn new() -> Result<Self, CudaError> {
                let mut raw = std::ptr::null_mut();
                // SAFETY: `raw` takes the descriptor.
                status(stringify!($create), unsafe { sys::$create(&raw mut raw) })?;
                Ok(Self(raw))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: made by its counterpart, used no more. An answer has nobody to go to.
                let _ = unsafe { sys::$destroy(self.0) };
            }
        }
    };
}
descriptor!(Network, sys::cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor);
descriptor!(Sequences, sys::cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor);
descriptor!(Tensor, sys::cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor);
descriptor!(Dropout, sys::cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor);

/// A network over batches of one shape, ready to run.
#[derive(Debug)]
pub(super) struct RecurrentPlan {
    network: Network,
    /// It holds for the network's life: the network refers to it.
    _dropout: Dropout,
    x: Sequences,
    y: Sequences,
    state: Tensor,
    weights: usize,
    workspace: usize,
    reserve: usize,
}

/// Addresses of what forward works on; a state that the cell has not is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrentTensors {
    /// The input, length outermost.
    pub x: u64,
    /// The output, the same way.
    pub y: u64,
    /// The first hidden and cell states.
    pub first: [u64; 2],
    /// The last ones.
    pub last: [u64; 2],
    /// All weights.
    pub weights: u64,
}

/// Addresses of gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrentGradients {
    /// Of the output.
    pub y: u64,
    /// Of the last states.
    pub last: [u64; 2],
    /// Of the input: written.
    pub x: u64,
    /// Of the first states: written.
    pub first: [u64; 2],
}

/// PyTorch's choice (`get_algo` of `RNN.cpp`): persistent kernels for small hidden states, and for f16 where they were measured to be
/// faster.
fn algorithm(call: &Recurrent, gpu: &Gpu) -> Algorithm {
    let (major, minor) = gpu.capability;
    // cuDNN has such kernels for these two types.
    if major >= 6 && call.hidden <= 192 && matches!(call.dtype, DType::F32 | DType::F16) {
        return Algorithm::CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
    }
    if call.dtype != DType::F16 {
        return Algorithm::CUDNN_RNN_ALGO_STANDARD;
    }
    let shaped =
        call.layers == 1 && !call.bidirectional && call.hidden <= 1024 && call.hidden.is_multiple_of(128) && call.input.is_multiple_of(128);
    let (batch, length) = (call.batch, call.length);
    let fits = match (major, minor) {
        (7, 5) => false,
        (7, _) => {
            let sized = (batch.is_multiple_of(16) && batch != 80 && batch != 112) || batch == 8;
            sized && ((length >= 40 && batch <= 128) || (length >= 20 && batch <= 96) || (length >= 10 && batch <= 32))
        }
        (8.., 6) => false,
        (8.., _) => gpu.multiprocessors >= 98 && call.cell == Cell::Lstm && batch.is_multiple_of(8) && batch <= 128,
        _ => false,
    };
    if shaped && fits { Algorithm::CUDNN_RNN_ALGO_PERSIST_STATIC } else { Algorithm::CUDNN_RNN_ALGO_STANDARD }
}

impl Cuda {
    /// Workspace and reserve, in bytes; no reserve where backward does not follow.
    pub(super) fn recurrent_scratch(&self, call: &Recurrent) -> Result<(u64, u64), CudaError> {
        self.with_plan(call, |_, plan| Ok((plan.workspace as u64, plan.reserve as u64)))
    }

    fn with_plan<T>(
        &self,
        call: &Recurrent,
        work: impl FnOnce(sys::cudnnHandle_t, &RecurrentPlan) -> Result<T, CudaError>,
    ) -> Result<T, CudaError> {
        // Both buffers are one plan's.
        let key = Recurrent { buffer: Buffer::Workspace, ..*call };
        let handle = self.dnn_handle()?;
        if !self.dnn.recurrent.borrow().contains_key(&key) {
            let plan = self.counted(|| make(handle, call, &self.facts.gpu)).map_err(|e| e.within(&key.to_string()))?;
            self.dnn.recurrent.borrow_mut().insert(key, plan);
        }
        let plans = self.dnn.recurrent.borrow();
        work(handle, plans.get(&key).expect("made above")).map_err(|e| e.within(&key.to_string()))
    }

    /// The output and the last states.
    pub fn recurrent_forward(&self, call: &Recurrent, at: &RecurrentTensors, workspace: Workspace, reserve: Workspace) {
        let mode = if call.training { Mode::CUDNN_FWD_MODE_TRAINING } else { Mode::CUDNN_FWD_MODE_INFERENCE };
        self.attempt(|| {
            self.with_plan(call, |handle, plan| {
                // SAFETY: handle and descriptors live; every address is a live block of the shape that its descriptor says, and both
                // buffers are of the sizes that the library asked for, as whoever owns them promises.
                status("cudnnRNNForward", unsafe {
                    sys::cudnnRNNForward(
                        handle,
                        plan.network.0,
                        mode,
                        std::ptr::null(),
                        plan.x.0,
                        read(at.x),
                        plan.y.0,
                        written(at.y),
                        plan.state.0,
                        read(at.first[0]),
                        written(at.last[0]),
                        plan.state.0,
                        read(at.first[1]),
                        written(at.last[1]),
                        plan.weights,
                        read(at.weights),
                        workspace.bytes as usize,
                        written(workspace.address),
                        reserve.bytes as usize,
                        written(reserve.address),
                    )
                })
            })
        });
    }

    /// Gradients of the input and of the first states. It comes before the weights': it leaves in the reserve what they need.
    pub fn recurrent_backward_data(
        &self,
        call: &Recurrent,
        at: &RecurrentTensors,
        gradients: &RecurrentGradients,
        workspace: Workspace,
        reserve: Workspace,
    ) {
        self.attempt(|| {
            self.with_plan(call, |handle, plan| {
                // SAFETY: as in forward.
                status("cudnnRNNBackwardData", unsafe {
                    sys::cudnnRNNBackwardData_v8(
                        handle,
                        plan.network.0,
                        std::ptr::null(),
                        plan.y.0,
                        read(at.y),
                        read(gradients.y),
                        plan.x.0,
                        written(gradients.x),
                        plan.state.0,
                        read(at.first[0]),
                        read(gradients.last[0]),
                        written(gradients.first[0]),
                        plan.state.0,
                        read(at.first[1]),
                        read(gradients.last[1]),
                        written(gradients.first[1]),
                        plan.weights,
                        read(at.weights),
                        workspace.bytes as usize,
                        written(workspace.address),
                        reserve.bytes as usize,
                        written(reserve.address),
                    )
                })
            })
        });
    }

    /// Adds the gradients of all weights to what lies at `to`.
    pub fn recurrent_backward_weights(&self, call: &Recurrent, at: &RecurrentTensors, to: u64, workspace: Workspace, reserve: Workspace) {
        self.attempt(|| {
            self.with_plan(call, |handle, plan| {
                // SAFETY: as in forward.
                status("cudnnRNNBackwardWeights", unsafe {
                    sys::cudnnRNNBackwardWeights_v8(
                        handle,
                        plan.network.0,
                        Adding::CUDNN_WGRAD_MODE_ADD,
                        std::ptr::null(),
                        plan.x.0,
                        read(at.x),
                        plan.state.0,
                        read(at.first[0]),
                        plan.y.0,
                        read(at.y),
                        plan.weights,
                        written(to),
                        workspace.bytes as usize,
                        written(workspace.address),
                        reserve.bytes as usize,
                        written(reserve.address),
                    )
                })
            })
        });
    }
}

fn read(address: u64) -> *const c_void {
    address as *const c_void
}

fn written(address: u64) -> *mut c_void {
    address as *mut c_void
}

fn make(handle: sys::cudnnHandle_t, call: &Recurrent, gpu: &Gpu) -> Result<RecurrentPlan, CudaError> {
    let dropout = Dropout::new()?;
    // SAFETY: the descriptor was just made; without dropout there is no state.
    status("cudnnSetDropoutDescriptor", unsafe { sys::cudnnSetDropoutDescriptor(dropout.0, handle, 0.0, std::ptr::null_mut(), 0, 0) })?;
    let network = network(call, gpu, &dropout)?;
    let directions = if call.bidirectional { 2 } else { 1 };
    let x = sequences(call, call.input)?;
    let y = sequences(call, call.hidden * directions)?;
    let state = tensor(call.dtype, [call.layers * directions, call.batch, call.hidden])?;
    let mut weights = 0;
    // SAFETY: the handle and the network live; `weights` takes the number.
    status("cudnnGetRNNWeightSpaceSize", unsafe { sys::cudnnGetRNNWeightSpaceSize(handle, network.0, &raw mut weights) })?;
    let mode = if call.training { Mode::CUDNN_FWD_MODE_TRAINING } else { Mode::CUDNN_FWD_MODE_INFERENCE };
    let (mut workspace, mut reserve) = (0, 0);
    // SAFETY: handle and descriptors live; both take numbers.
    status("cudnnGetRNNTempSpaceSizes", unsafe {
        sys::cudnnGetRNNTempSpaceSizes(handle, network.0, mode, x.0, &raw mut workspace, &raw mut reserve)
    })?;
    let plan = RecurrentPlan { network, _dropout: dropout, x, y, state, weights, workspace, reserve };
    check_places(handle, call, &plan)?;
    Ok(plan)
}

fn network(call: &Recurrent, gpu: &Gpu, dropout: &Dropout) -> Result<Network, CudaError> {
    let network = Network::new()?;
    let cell = match call.cell {
        Cell::Lstm => CellMode::CUDNN_LSTM,
        Cell::Gru => CellMode::CUDNN_GRU,
    };
    let directions = if call.bidirectional { Directions::CUDNN_BIDIRECTIONAL } else { Directions::CUDNN_UNIDIRECTIONAL };
    // TF32 is allowed, as it is for convolutions; halves go to tensor cores.
    let math = if call.dtype.is_half() { Math::CUDNN_TENSOR_OP_MATH } else { Math::CUDNN_DEFAULT_MATH };
    let (input, hidden, layers) = (int(call.input)?, int(call.hidden)?, int(call.layers)?);
    // SAFETY: both descriptors live; the rest are numbers.
    status("cudnnSetRNNDescriptor", unsafe {
        sys::cudnnSetRNNDescriptor_v8(
            network.0,
            algorithm(call, gpu),
            cell,
            Bias::CUDNN_RNN_DOUBLE_BIAS,
            directions,
            Input::CUDNN_LINEAR_INPUT,
            data_type(call.dtype),
            sum_type(call.dtype),
            math,
            input,
            hidden,
            hidden,
            layers,
            dropout.0,
            PADDED,
        )
    })?;
    Ok(network)
}

/// A batch of sequences of one length, the length outermost.
fn sequences(call: &Recurrent, features: u64) -> Result<Sequences, CudaError> {
    let sequences = Sequences::new()?;
    let (length, batch, features) = (int(call.length)?, int(call.batch)?, int(features)?);
    let lengths = vec![length; call.batch as usize];
    // SAFETY: the descriptor lives; there is a length for each sample, and the library copies them; nothing is padded, so nothing fills.
    status("cudnnSetRNNDataDescriptor", unsafe {
        sys::cudnnSetRNNDataDescriptor(
            sequences.0,
            data_type(call.dtype),
            Layout::CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
            length,
            batch,
            features,
            lengths.as_ptr(),
            std::ptr::null_mut(),
        )
    })?;
    Ok(sequences)
}

/// A contiguous tensor.
fn tensor(dtype: DType, dims: [u64; 3]) -> Result<Tensor, CudaError> {
    let tensor = Tensor::new()?;
    let dims = [int(dims[0])?, int(dims[1])?, int(dims[2])?];
    let strides = [int(u64::from(dims[1].unsigned_abs()) * u64::from(dims[2].unsigned_abs()))?, dims[2], 1];
    // SAFETY: the descriptor lives; there are three sizes and three strides.
    status("cudnnSetTensorNdDescriptor", unsafe {
        sys::cudnnSetTensorNdDescriptor(tensor.0, data_type(dtype), 3, dims.as_ptr(), strides.as_ptr())
    })?;
    Ok(tensor)
}

/// Asks cuDNN where it looks for the first gate of every matrix and bias: where this program puts them.
fn check_places(handle: sys::cudnnHandle_t, call: &Recurrent, plan: &RecurrentPlan) -> Result<(), CudaError> {
    let (matrix, bias) = (Tensor::new()?, Tensor::new()?);
    let gates = i32::try_from(call.cell.gates()).expect("few gates");
    // Any address that is no null pointer: the library only counts from it.
    let base = 1usize << 20;
    for (number, expected) in call.places().into_iter().enumerate() {
        for (part, [of_matrix, of_bias]) in (0..).zip(expected) {
            let (mut m, mut b) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: handle and descriptors live; both take pointers, which are never followed.
            status("cudnnGetRNNWeightParams", unsafe {
                sys::cudnnGetRNNWeightParams(
                    handle,
                    plan.network.0,
                    number as i32,
                    plan.weights,
                    base as *const c_void,
                    part * gates,
                    matrix.0,
                    &raw mut m,
                    bias.0,
                    &raw mut b,
                )
            })?;
            let width = call.dtype.bytes() as usize;
            let found = [m as usize, b as usize].map(|p| p.wrapping_sub(base));
            if found != [of_matrix as usize * width, of_bias as usize * width] {
                return Err(CudaError::Call {
                    call: "cudnnGetRNNWeightParams".to_owned(),
                    name: "another layout".to_owned(),
                    text: format!("cuDNN keeps part {part} of layer {number} at {found:?}, not {of_matrix} and {of_bias} elements in"),
                });
            }
        }
    }
    Ok(())
}
