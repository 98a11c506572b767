//! Matrix products: what they are of, and cuBLAS for those that cuBLASLt has nothing for. Workspaces are the caller's: never cuBLAS's own.
//!
//! As in PyTorch, f16 and bf16 accumulate in f32, and f32 is not rounded to TF32.

use std::cell::RefCell;
use std::ffi::c_void;

use super::bindings::cublas::{self as blas, cublasComputeType_t as Compute, cublasOperation_t as Transpose, cublasStatus_t, cudaDataType};
use super::context::Cuda;
use super::error::{CudaError, library};
use super::matmul::Addend;
use crate::meta::DType;

/// Whose handle is used: PyTorch runs backward on a thread of its own, and a handle belongs to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The main thread's.
    Forward,
    /// The autograd thread's.
    Backward,
}

/// A matrix where it lies: addresses in bytes, strides in elements; one of the two strides is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// Of its first element.
    pub address: u64,
    /// From one row to the next.
    pub row_stride: u64,
    /// From one column to the next.
    pub column_stride: u64,
}

/// Scratch that a library works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workspace {
    /// Of its first byte; 0 where there is none.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

/// `c = a · b + beta · c`, with `a` of `m` × `k`, `b` of `k` × `n`, and `c` of `m` × `n`, rows one after another.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    /// Of all three.
    pub dtype: DType,
    /// Rows of `a` and `c`.
    pub m: u64,
    /// Columns of `b` and `c`.
    pub n: u64,
    /// Columns of `a`, rows of `b`.
    pub k: u64,
    /// The left factor.
    pub a: Matrix,
    /// The right factor.
    pub b: Matrix,
    /// The address of the result.
    pub c: u64,
}

/// Products of the same shape, one behind the other.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// How many.
    pub entries: u64,
    /// From one to the next of `a`, `b` and `c`, in elements.
    pub steps: [u64; 3],
}

/// cuBLAS's handles, made when first needed.
#[derive(Debug, Default)]
pub(super) struct Blas {
    handles: RefCell<[Option<Handle>; 2]>,
}

#[derive(Debug, Clone, Copy)]
struct Handle {
    handle: blas::cublasHandle_t,
    workspace: Workspace,
}

/// A number in the type that products are scaled in.
#[repr(C)]
pub(super) union Scale {
    single: f32,
    double: f64,
}

impl Scale {
    pub(super) fn new(value: f64, dtype: DType) -> Self {
        if dtype == DType::F64 { Self { double: value } } else { Self { single: value as f32 } }
    }

    pub(super) fn pointer(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}

/// A factor as column-major libraries see it, of which `stored` elements lie side by side.
pub(super) fn column_major(matrix: Matrix, rows: u64, columns: u64) -> (Transpose, u64) {
    // Read by columns, row-major memory is the transposed matrix: what is asked for, where both factors and the result are transposed.
    if matrix.column_stride == 1 {
        (Transpose::CUBLAS_OP_N, matrix.row_stride.max(columns).max(1))
    } else {
        (Transpose::CUBLAS_OP_T, matrix.column_stride.max(rows).max(1))
    }
}

/// Whether the library is to transpose what it reads.
pub(super) fn is_transposed(transpose: Transpose) -> bool {
    transpose != Transpose::CUBLAS_OP_N
}

fn size(n: u64) -> Result<i32, CudaError> {
    i32::try_from(n).map_err(|_| CudaError::Call {
        call: "cublasGemmEx".to_owned(),
        name: "a matrix too large".to_owned(),
        text: format!("{n} rows, columns or strides; the library counts to 2147483647"),
    })
}

fn status(call: &'static str, status: cublasStatus_t) -> Result<(), CudaError> {
    library(call, status, &cublasStatus_t::CUBLAS_STATUS_SUCCESS)
}

const fn compute(dtype: DType) -> Compute {
    if matches!(dtype, DType::F64) { Compute::CUBLAS_COMPUTE_64F } else { Compute::CUBLAS_COMPUTE_32F }
}

fn data_type(dtype: DType) -> cudaDataType {
    match dtype {
        DType::F64 => cudaDataType::CUDA_R_64F,
        DType::F32 => cudaDataType::CUDA_R_32F,
        DType::F16 => cudaDataType::CUDA_R_16F,
        DType::BF16 => cudaDataType::CUDA_R_16BF,
        DType::I64 | DType::Bool | DType::U8 => unreachable!("matrix products are of floating types"),
    }
}

impl Cuda {
    /// `c = a · b + beta · c`.
    pub fn gemm(&self, pass: Pass, workspace: Workspace, product: &Product, beta: f64) {
        self.attempt(|| {
            if self.matmul(workspace, product, Addend::Scaled(beta))? { Ok(()) } else { self.gemm_now(pass, workspace, product, beta) }
        });
    }

    /// `c = a · b + bias`, the bias one element a column, in one kernel. Whether it could: there are shapes and GPUs for which there is
    /// none.
    #[must_use]
    pub fn gemm_bias(&self, workspace: Workspace, product: &Product, bias: u64) -> bool {
        self.attempt(|| self.matmul(workspace, product, Addend::Bias(bias))).unwrap_or(true)
    }

    fn gemm_now(&self, pass: Pass, workspace: Workspace, p: &Product, beta: f64) -> Result<(), CudaError> {
        let handle = self.handle(pass, workspace)?;
        let (transpose_a, stride_a) = column_major(p.a, p.m, p.k);
        let (transpose_b, stride_b) = column_major(p.b, p.k, p.n);
        let (alpha, beta) = (Scale::new(1.0, p.dtype), Scale::new(beta, p.dtype));
        let kind = data_type(p.dtype);
        let (m, n, k) = (size(p.m)?, size(p.n)?, size(p.k)?);
        // cᵀ = bᵀ · aᵀ: the library's columns are our rows.
        // SAFETY: the handle lives; the matrices are live blocks of the stated shapes, as whoever owns them promises; scales live through
        // the call.
        status("cublasGemmEx", unsafe {
            blas::cublasGemmEx(
                handle,
                transpose_b,
                transpose_a,
                n,
                m,
                k,
                alpha.pointer(),
                p.b.address as *const c_void,
                kind,
                size(stride_b)?,
                p.a.address as *const c_void,
                kind,
                size(stride_a)?,
                beta.pointer(),
                p.c as *mut c_void,
                kind,
                n.max(1),
                compute(p.dtype),
                blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        })
    }

    /// `c = a · b` for every entry of a batch, by cuBLAS.
    pub fn gemm_batch(&self, pass: Pass, workspace: Workspace, product: &Product, batch: Batch) {
        self.attempt(|| self.gemm_batch_now(pass, workspace, product, batch));
    }

    fn gemm_batch_now(&self, pass: Pass, workspace: Workspace, p: &Product, batch: Batch) -> Result<(), CudaError> {
        let handle = self.handle(pass, workspace)?;
        let (transpose_a, stride_a) = column_major(p.a, p.m, p.k);
        let (transpose_b, stride_b) = column_major(p.b, p.k, p.n);
        let (one, zero) = (Scale::new(1.0, p.dtype), Scale::new(0.0, p.dtype));
        let kind = data_type(p.dtype);
        let (m, n, k) = (size(p.m)?, size(p.n)?, size(p.k)?);
        let [step_a, step_b, step_c] = batch.steps.map(u64::cast_signed);
        // SAFETY: as of `gemm_now`; each entry's matrices lie within the blocks that the steps walk through.
        status("cublasGemmStridedBatchedEx", unsafe {
            blas::cublasGemmStridedBatchedEx(
                handle,
                transpose_b,
                transpose_a,
                n,
                m,
                k,
                one.pointer(),
                p.b.address as *const c_void,
                kind,
                size(stride_b)?,
                step_b,
                p.a.address as *const c_void,
                kind,
                size(stride_a)?,
                step_a,
                zero.pointer(),
                p.c as *mut c_void,
                kind,
                n.max(1),
                step_c,
                size(batch.entries)?,
                compute(p.dtype),
                blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        })
    }

    /// The handle of a pass, working in `workspace`.
    fn handle(&self, pass: Pass, workspace: Workspace) -> Result<blas::cublasHandle_t, CudaError> {
        let handle = self.handle_alone(pass)?;
        let known = &mut self.blas.handles.borrow_mut()[pass as usize];
        let known = known.as_mut().expect("made above");
        if known.workspace != workspace {
            // SAFETY: the block belongs to the pass until another takes its place.
            status("cublasSetWorkspace", unsafe {
                blas::cublasSetWorkspace_v2(handle, workspace.address as *mut c_void, workspace.bytes as usize)
            })?;
            known.workspace = workspace;
        }
        Ok(handle)
    }

    fn handle_alone(&self, pass: Pass) -> Result<blas::cublasHandle_t, CudaError> {
        if let Some(known) = self.blas.handles.borrow()[pass as usize] {
            return Ok(known.handle);
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` takes the handle, made in the current context.
        self.counted(|| status("cublasCreate", unsafe { blas::cublasCreate_v2(&raw mut handle) }))?;
        self.blas.handles.borrow_mut()[pass as usize] = Some(Handle { handle, workspace: Workspace { address: 0, bytes: 0 } });
        Ok(handle)
    }
}

impl Blas {
    pub(super) fn close(&mut self) {
        for handle in self.handles.get_mut().iter_mut().filter_map(Option::take) {
            // SAFETY: made once, used no more. An answer has nobody to go to.
            let _ = unsafe { blas::cublasDestroy_v2(handle.handle) };
        }
    }
}
