//! What can go wrong on a GPU, each with the name of the call that said so. Out of memory is not here: that is the allocator's answer.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};

/// A call that failed, or a library or device that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// Libraries that the device needs and that could not be loaded, each with the places tried.
    #[error("CUDA cannot be used here:{}", list(.0))]
    Missing(Vec<MissingLibrary>),
    /// There are fewer GPUs than that.
    #[error("there is no GPU {ordinal}: the driver knows {count}")]
    NoSuchGpu {
        /// The GPU asked for, from 0.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// A call was refused.
    #[error("{call} failed: {name} ({text})")]
    Call {
        /// The function that answered, and what it was to do where that is told.
        call: String,
        /// The library's name of the error.
        name: String,
        /// What the library says about it.
        text: String,
    },
    /// The GPU or its context is gone: every later call would fail as well.
    #[error("the GPU is lost: {call} answered {name} ({text}); nothing on it can be trusted any more, start the program again")]
    Lost {
        /// The function that answered, and what it was to do where that is told.
        call: String,
        /// The library's name of the error.
        name: String,
        /// What the library says about it.
        text: String,
    },
    /// A kernel source that NVRTC refuses: a mistake in this program, or an NVRTC too old for it.
    #[error("NVRTC does not compile the kernels {kernels} for {architecture}:\n{log}")]
    Compile {
        /// The source's name and its types.
        kernels: String,
        /// The architecture, e.g. `sm_90`.
        architecture: String,
        /// The compiler's words.
        log: String,
    },
}

impl CudaError {
    /// The same, told with what the call was to do.
    pub(super) fn within(mut self, what: &str) -> Self {
        if let Self::Call { call, .. } | Self::Lost { call, .. } = &mut self {
            *call = format!("{call} of {what}");
        }
        self
    }

    /// What is said where cuDNN's heuristics name nothing.
    pub(super) fn no_engine() -> Self {
        Self::Call {
            call: "cudnnBackendGetAttribute".to_owned(),
            name: "no engine".to_owned(),
            text: "cuDNN's heuristics know nothing that computes it".to_owned(),
        }
    }

    /// Whether cuDNN's answer means that a plan cannot run here, and another may. Names of its answers begin with that of their family.
    pub(super) fn is_of_the_plan(&self) -> bool {
        const FAMILIES: [&str; 2] = ["CUDNN_STATUS_NOT_SUPPORTED", "CUDNN_STATUS_EXECUTION_FAILED"];
        matches!(self, Self::Call { name, .. } if FAMILIES.iter().any(|family| name.starts_with(family)))
    }
}

/// A library that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingLibrary {
    /// What it is called, e.g. `cuBLAS`.
    pub title: &'static str,
    /// File names and paths that were tried.
    pub tried: Vec<String>,
}

impl CudaError {
    /// The same in a line: of missing libraries their names, without where they were looked for.
    #[must_use]
    pub fn in_short(&self) -> String {
        match self {
            Self::Missing(missing) => {
                let titles: Vec<&str> = missing.iter().map(|m| m.title).collect();
                format!("not found: {}", titles.join(", "))
            }
            other => other.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "),
        }
    }
}

fn list(missing: &[MissingLibrary]) -> String {
    missing.iter().map(|m| format!("\n  {} is not found (tried {})", m.title, m.tried.join(", "))).collect()
}

/// Errors after which the context answers nothing but errors.
const FATAL: &[CUresult] = &[
    CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// The driver's answer to `call` as a result.
pub(super) fn driver(call: &'static str, code: CUresult) -> Result<(), CudaError> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let name = driver_text(code, |code, text| {
        // SAFETY: `text` points to a pointer that the driver sets to a static string, or leaves null.
        unsafe { sys::cuGetErrorName(code, text) }
    });
    let text = driver_text(code, |code, text| {
        // SAFETY: as above.
        unsafe { sys::cuGetErrorString(code, text) }
    });
    let call = call.to_owned();
    Err(if FATAL.contains(&code) { CudaError::Lost { call, name, text } } else { CudaError::Call { call, name, text } })
}

fn driver_text(code: CUresult, ask: impl Fn(CUresult, *mut *const core::ffi::c_char) -> CUresult) -> String {
    let mut text = std::ptr::null();
    if ask(code, &raw mut text) != CUresult::CUDA_SUCCESS || text.is_null() {
        return format!("error {}", code as u32);
    }
    // SAFETY: the driver's strings are static and end in a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The answer of a library whose status prints as its name, e.g. cuBLAS's.
pub(super) fn library<E: std::fmt::Debug + PartialEq>(call: &'static str, status: E, success: &E) -> Result<(), CudaError> {
    if status == *success {
        return Ok(());
    }
    Err(CudaError::Call { call: call.to_owned(), name: format!("{status:?}"), text: "no more is said".to_owned() })
}
