//! cuDNN: its handle, the names of its types and errors, and what it asks for besides its arguments.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::CStr;

use super::bindings::cudnn::{self as sys, cudnnDataType_t, cudnnStatus_t};

use super::attention::AttentionPlan;
use super::attention_graph::AttentionKey;
use super::context::Cuda;
use super::convolution::ConvolutionPlan;
use super::error::CudaError;
use super::library::{Library, require};
use super::recurrent::RecurrentPlan;
use crate::gpu::Gpu;
use crate::meta::DType;
use crate::scratch::{Buffer, Convolution, Recurrent, Request, Rules, Scratch};

/// cuDNN's handle, made when first needed, and what was planned with it.
#[derive(Debug, Default)]
pub(super) struct Dnn {
    handle: Cell<Option<sys::cudnnHandle_t>>,
    pub(super) convolutions: RefCell<BTreeMap<Convolution, ConvolutionPlan>>,
    /// None where cuDNN has no engine.
    pub(super) attentions: RefCell<BTreeMap<AttentionKey, Option<AttentionPlan>>>,
    pub(super) recurrent: RefCell<BTreeMap<Recurrent, RecurrentPlan>>,
}

/// cuDNN's answer to `call` as a result, with what the library says of it.
pub(super) fn status(call: &'static str, status: cudnnStatus_t) -> Result<(), CudaError> {
    if status == cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        return Ok(());
    }
    let mut text = [0 as core::ffi::c_char; 512];
    // SAFETY: the buffer is as long as said; cuDNN ends what it writes with a zero, and the last byte stays one.
    unsafe { sys::cudnnGetLastErrorString(text.as_mut_ptr(), text.len() - 1) };
    // SAFETY: the buffer ends in a zero.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().trim().to_owned();
    let text = if text.is_empty() { "no more is said".to_owned() } else { text };
    Err(CudaError::Call { call: call.to_owned(), name: format!("{status:?}"), text })
}

/// cuDNN's name of an element type.
pub(super) fn data_type(dtype: DType) -> cudnnDataType_t {
    match dtype {
        DType::F64 => cudnnDataType_t::CUDNN_DATA_DOUBLE,
        DType::F32 => cudnnDataType_t::CUDNN_DATA_FLOAT,
        DType::F16 => cudnnDataType_t::CUDNN_DATA_HALF,
        DType::BF16 => cudnnDataType_t::CUDNN_DATA_BFLOAT16,
        DType::I64 | DType::Bool | DType::U8 => unreachable!("networks compute on floating types"),
    }
}

/// The type in which cuDNN adds up.
pub(super) fn sum_type(dtype: DType) -> cudnnDataType_t {
    data_type(dtype.accumulator())
}

/// A size as cuDNN's C interface takes it.
pub(super) fn int(n: u64) -> Result<i32, CudaError> {
    i32::try_from(n).map_err(|_| CudaError::Call {
        call: "cuDNN".to_owned(),
        name: "a size too large".to_owned(),
        text: format!("{n}; the library counts to 2147483647"),
    })
}

impl Cuda {
    pub(super) fn dnn_handle(&self) -> Result<sys::cudnnHandle_t, CudaError> {
        if let Some(handle) = self.dnn.handle.get() {
            return Ok(handle);
        }
        require(&[Library::Cudnn])?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is loaded; `handle` takes the handle, made in the current context.
        self.counted(|| status("cudnnCreate", unsafe { sys::cudnnCreate(&raw mut handle) }))?;
        self.dnn.handle.set(Some(handle));
        Ok(handle)
    }
}

impl Dnn {
    /// Plans go first, then the handle they were made with.
    pub(super) fn close(&self) {
        self.convolutions.borrow_mut().clear();
        self.attentions.borrow_mut().clear();
        self.recurrent.borrow_mut().clear();
        if let Some(handle) = self.handle.take() {
            // SAFETY: made by `cudnnCreate`, used no more. An answer has nobody to go to.
            let _ = unsafe { sys::cudnnDestroy(handle) };
        }
    }
}

/// A GPU's libraries, asked. A failure is the GPU's, kept there; what is answered after one means nothing.
impl Scratch for Cuda {
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64 {
        let answer = self.attempt(|| match request {
            Request::Convolution(call) => self.convolution_workspace(call),
            Request::Recurrent(call) => {
                let (workspace, reserve) = self.recurrent_scratch(call)?;
                Ok(match call.buffer {
                    Buffer::Workspace => workspace,
                    Buffer::Reserve => reserve,
                })
            }
            // Where cuDNN has no plan, this program's own kernels work in what PyTorch's would take.
            Request::Attention(call) => Ok(self.attention_workspace(call)?.unwrap_or_else(|| Rules.bytes(gpu, request))),
        });
        answer.unwrap_or(0)
    }
}
