//! Matrix products by cuBLAS, and by cuBLASLt where a bias is added in the same kernel. Workspaces are the caller's: never cuBLAS's own.
//!
//! As in PyTorch, forward and backward have a handle each, f16 and bf16 accumulate in f32, and f32 is not rounded to TF32.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublas::sys::{self as blas, cublasComputeType_t as Compute, cublasOperation_t as Transpose, cublasStatus_t, cudaDataType};
use cudarc::cublaslt::sys::{self as lt, cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatmulPreferenceAttributes_t as Preference};

use super::context::Cuda;
use super::error::{CudaError, library};
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

impl Matrix {
    /// Rows of `columns` elements, one after another.
    #[must_use]
    pub const fn row_major(address: u64, columns: u64) -> Self {
        Self { address, row_stride: columns, column_stride: 1 }
    }

    /// The same memory read as the transposed matrix.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self { address: self.address, row_stride: self.column_stride, column_stride: self.row_stride }
    }
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

/// cuBLAS's handles, made when first needed, and what was found out about shapes.
#[derive(Debug, Default)]
pub(super) struct Blas {
    handles: RefCell<[Option<Handle>; 2]>,
    plans: RefCell<HashMap<PlanKey, Option<Plan>>>,
}

#[derive(Debug, Clone, Copy)]
struct Handle {
    handle: blas::cublasHandle_t,
    workspace: Workspace,
}

/// What cuBLASLt's choice of algorithm depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PlanKey {
    dtype: DType,
    sizes: [u64; 3],
    strides: [u64; 4],
    alignments: [u32; 4],
    workspace: u64,
}

/// A product that cuBLASLt is ready to run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    description: lt::cublasLtMatmulDesc_t,
    layouts: [lt::cublasLtMatrixLayout_t; 3],
    algorithm: lt::cublasLtMatmulAlgo_t,
}

/// 1 and 0 in the type that products are scaled in.
#[repr(C)]
union Scale {
    single: f32,
    double: f64,
}

impl Scale {
    fn new(value: f64, dtype: DType) -> Self {
        if dtype == DType::F64 { Self { double: value } } else { Self { single: value as f32 } }
    }

    fn pointer(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}

/// A factor as column-major libraries see it, of which `stored` elements lie side by side.
fn column_major(matrix: Matrix, rows: u64, columns: u64) -> (Transpose, u64) {
    // Read by columns, row-major memory is the transposed matrix: what is asked for, where both factors and the result are transposed.
    if matrix.column_stride == 1 {
        (Transpose::CUBLAS_OP_N, matrix.row_stride.max(columns).max(1))
    } else {
        (Transpose::CUBLAS_OP_T, matrix.column_stride.max(rows).max(1))
    }
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

fn lt_status(call: &'static str, status: lt::cublasStatus_t) -> Result<(), CudaError> {
    library(call, status, &lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS)
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

fn lt_data_type(dtype: DType) -> lt::cudaDataType {
    match dtype {
        DType::F64 => lt::cudaDataType::CUDA_R_64F,
        DType::F32 => lt::cudaDataType::CUDA_R_32F,
        DType::F16 => lt::cudaDataType::CUDA_R_16F,
        DType::BF16 => lt::cudaDataType::CUDA_R_16BF,
        DType::I64 | DType::Bool | DType::U8 => unreachable!("matrix products are of floating types"),
    }
}

impl Cuda {
    /// `c = a · b + beta · c` by cuBLAS.
    pub fn gemm(&self, pass: Pass, workspace: Workspace, product: &Product, beta: f64) {
        self.attempt(|| self.gemm_now(pass, workspace, product, beta));
    }

    fn gemm_now(&self, pass: Pass, workspace: Workspace, p: &Product, beta: f64) -> Result<(), CudaError> {
        let handle = self.handle(pass, workspace)?;
        let (transpose_a, stride_a) = column_major(p.a, p.m, p.k);
        let (transpose_b, stride_b) = column_major(p.b, p.k, p.n);
        let (alpha, beta) = (Scale::new(1.0, p.dtype), Scale::new(beta, p.dtype));
        let kind = data_type(p.dtype);
        let (m, n, k) = (size(p.m)?, size(p.n)?, size(p.k)?);
        // cᵀ = bᵀ · aᵀ: the library's columns are our rows.
        // SAFETY: the handle lives; the matrices are live blocks of the stated shapes, as whoever owns them promises; scales live through the call.
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

    /// `c = a · b + bias`, the bias one element a column, by cuBLASLt. Whether it could: there are shapes and GPUs for which it has nothing.
    #[must_use]
    pub fn gemm_bias(&self, pass: Pass, workspace: Workspace, product: &Product, bias: u64) -> bool {
        self.attempt(|| self.gemm_bias_now(pass, workspace, product, bias)).unwrap_or(true)
    }

    fn gemm_bias_now(&self, pass: Pass, workspace: Workspace, p: &Product, bias: u64) -> Result<bool, CudaError> {
        // PyTorch's cuBLASLt handle is its cuBLAS handle, which is one.
        let handle = self.handle_alone(pass)?.cast();
        let Some(plan) = self.plan(handle, workspace, p, bias)? else { return Ok(false) };
        let (one, zero) = (Scale::new(1.0, p.dtype), Scale::new(0.0, p.dtype));
        set(plan.description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        let [b, a, c] = plan.layouts;
        // SAFETY: the plan's objects live as long as the context; the matrices, the bias and the workspace are live blocks of the stated shapes,
        // as whoever owns them promises; scales live through the call.
        lt_status("cublasLtMatmul", unsafe {
            lt::cublasLtMatmul(
                handle,
                plan.description,
                one.pointer(),
                p.b.address as *const c_void,
                b,
                p.a.address as *const c_void,
                a,
                zero.pointer(),
                p.c as *const c_void,
                c,
                p.c as *mut c_void,
                c,
                &raw const plan.algorithm,
                workspace.address as *mut c_void,
                workspace.bytes as usize,
                std::ptr::null_mut(),
            )
        })?;
        Ok(true)
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

    /// How cuBLASLt runs this product, found once for each shape; `None` where it cannot.
    fn plan(&self, handle: lt::cublasLtHandle_t, workspace: Workspace, p: &Product, bias: u64) -> Result<Option<Plan>, CudaError> {
        let alignment = |address: u64| 1u32 << address.trailing_zeros().min(8);
        let key = PlanKey {
            dtype: p.dtype,
            sizes: [p.m, p.n, p.k],
            strides: [p.a.row_stride, p.a.column_stride, p.b.row_stride, p.b.column_stride],
            alignments: [alignment(p.a.address), alignment(p.b.address), alignment(p.c), alignment(bias)],
            workspace: workspace.bytes,
        };
        if let Some(plan) = self.blas.plans.borrow().get(&key) {
            return Ok(*plan);
        }
        let plan = make_plan(handle, &key, p, bias)?;
        self.blas.plans.borrow_mut().insert(key, plan);
        Ok(plan)
    }
}

fn make_plan(handle: lt::cublasLtHandle_t, key: &PlanKey, p: &Product, bias: u64) -> Result<Option<Plan>, CudaError> {
    let compute =
        if p.dtype == DType::F64 { lt::cublasComputeType_t::CUBLAS_COMPUTE_64F } else { lt::cublasComputeType_t::CUBLAS_COMPUTE_32F };
    let mut description = std::ptr::null_mut();
    // SAFETY: `description` takes the handle.
    lt_status("cublasLtMatmulDescCreate", unsafe {
        lt::cublasLtMatmulDescCreate(&raw mut description, compute, lt_data_type(p.dtype.accumulator()))
    })?;
    let (transpose_a, stride_a) = column_major(p.a, p.m, p.k);
    let (transpose_b, stride_b) = column_major(p.b, p.k, p.n);
    set(description, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &(transpose_b as i32))?;
    set(description, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &(transpose_a as i32))?;
    set(description, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as i32))?;
    set(description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
    let stored = |transpose, rows, columns| if transpose == Transpose::CUBLAS_OP_N { (rows, columns) } else { (columns, rows) };
    let layouts = [
        layout(p.dtype, stored(transpose_b, p.n, p.k), stride_b)?,
        layout(p.dtype, stored(transpose_a, p.k, p.m), stride_a)?,
        layout(p.dtype, (p.n, p.m), p.n)?,
    ];
    let mut preference = std::ptr::null_mut();
    // SAFETY: `preference` takes the handle.
    lt_status("cublasLtMatmulPreferenceCreate", unsafe { lt::cublasLtMatmulPreferenceCreate(&raw mut preference) })?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &key.workspace)?;
    let [a, b, c, _] = key.alignments;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c)?;
    // SAFETY: a C struct of numbers, for which all zeros is a value.
    let mut best: lt::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
    let mut found = 0;
    // SAFETY: all objects were made above; one result is asked for and there is room for one.
    let answer = unsafe {
        lt::cublasLtMatmulAlgoGetHeuristic(
            handle,
            description,
            layouts[0],
            layouts[1],
            layouts[2],
            layouts[2],
            preference,
            1,
            &raw mut best,
            &raw mut found,
        )
    };
    // SAFETY: made above, used no more.
    lt_status("cublasLtMatmulPreferenceDestroy", unsafe { lt::cublasLtMatmulPreferenceDestroy(preference) })?;
    match answer {
        lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS if found > 0 && best.state == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS => {
            Ok(Some(Plan { description, layouts, algorithm: best.algo }))
        }
        lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS | lt::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => {
            destroy(description, layouts);
            Ok(None)
        }
        other => lt_status("cublasLtMatmulAlgoGetHeuristic", other).map(|()| None),
    }
}

fn layout(dtype: DType, (rows, columns): (u64, u64), stride: u64) -> Result<lt::cublasLtMatrixLayout_t, CudaError> {
    let mut layout = std::ptr::null_mut();
    // SAFETY: `layout` takes the handle.
    lt_status("cublasLtMatrixLayoutCreate", unsafe {
        lt::cublasLtMatrixLayoutCreate(&raw mut layout, lt_data_type(dtype), rows, columns, stride.cast_signed())
    })?;
    Ok(layout)
}

fn set<T>(description: lt::cublasLtMatmulDesc_t, attribute: Attribute, value: &T) -> Result<(), CudaError> {
    // SAFETY: the description lives; the library copies as many bytes as the value has.
    lt_status("cublasLtMatmulDescSetAttribute", unsafe {
        lt::cublasLtMatmulDescSetAttribute(description, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
    })
}

fn prefer<T>(preference: lt::cublasLtMatmulPreference_t, attribute: Preference, value: &T) -> Result<(), CudaError> {
    // SAFETY: the preference lives; the library copies as many bytes as the value has.
    lt_status("cublasLtMatmulPreferenceSetAttribute", unsafe {
        lt::cublasLtMatmulPreferenceSetAttribute(preference, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
    })
}

fn destroy(description: lt::cublasLtMatmulDesc_t, layouts: [lt::cublasLtMatrixLayout_t; 3]) {
    // SAFETY: made once and used no more. The answers have nobody to go to.
    unsafe {
        let _ = lt::cublasLtMatmulDescDestroy(description);
        for layout in layouts {
            let _ = lt::cublasLtMatrixLayoutDestroy(layout);
        }
    }
}

impl Blas {
    pub(super) fn close(&mut self) {
        for (_, plan) in self.plans.get_mut().drain() {
            if let Some(plan) = plan {
                destroy(plan.description, plan.layouts);
            }
        }
        for handle in self.handles.get_mut().iter_mut().filter_map(Option::take) {
            // SAFETY: made once, used no more. An answer has nobody to go to.
            let _ = unsafe { blas::cublasDestroy_v2(handle.handle) };
        }
    }
}
