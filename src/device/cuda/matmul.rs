//! Matrix products by cuBLASLt: each shape gets a plan once, which is then only run.
//!
//! The library names several algorithms for a shape, the one it thinks fastest first; they differ by more than twice. So the first time a
//! machine meets a shape, the candidates are timed on the very operands, and what wins is kept on disk: later processes compute the same
//! bits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;

use super::algorithms::{Algorithms, Timer};
use super::bindings::cublaslt::{
    self as lt, cublasLtMatmulAlgo_t as Algorithm, cublasLtMatmulDescAttributes_t as Attribute,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasStatus_t as Status,
};
use super::blas::{Product, Scale, Workspace, column_major, is_transposed};
use super::context::Cuda;
use super::error::{CudaError, library};
use crate::meta::DType;

/// How many algorithms are tried.
const CANDIDATES: usize = 24;
/// Trying them ends after so much time: those that the library thinks fast come first, and a large product is run few times in training.
const MOST_MILLISECONDS: f32 = 20.0;
/// What is faster by less than this may be so by chance.
const CLEARLY_FASTER: f32 = 0.97;

/// What is added to a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Addend {
    /// The result's old elements, times this.
    Scaled(f64),
    /// One element a column, from this address.
    Bias(u64),
}

/// What an algorithm depends on. Its text names the algorithm on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    dtype: DType,
    /// m, n, k.
    sizes: [u64; 3],
    /// Of a's and b's rows and columns.
    strides: [u64; 4],
    /// Of a, b, c and the bias.
    alignments: [u32; 4],
    bias: bool,
    accumulates: bool,
    workspace: u64,
}

/// Defines an owner of one of cuBLASLt's objects.
macro_rules! owner {
    ($name:ident, $raw:ty, $destroy:ident) => {
        #[derive(Debug)]
        struct $name($raw);

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: made once, owned by this alone, used no more. An answer has nobody to go to.
                let _ = unsafe { lt::$destroy(self.0) };
            }
        }
    };
}
owner!(Description, lt::cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy);
owner!(Layout, lt::cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy);
owner!(Preferences, lt::cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy);

/// A product as the library sees it.
#[derive(Debug)]
struct Operation {
    description: Description,
    /// Of b, a and c.
    layouts: [Layout; 3],
}

/// A product that cuBLASLt is ready to run.
#[derive(Debug)]
struct Plan {
    operation: Operation,
    algorithm: Algorithm,
}

/// cuBLASLt's handle, made when first needed, and what was found out about shapes; `None` where it has nothing for one.
#[derive(Debug, Default)]
pub(super) struct Lt {
    handle: std::cell::OnceCell<lt::cublasLtHandle_t>,
    plans: RefCell<HashMap<Key, Option<Plan>>>,
    algorithms: std::cell::OnceCell<Algorithms>,
}

fn status(call: &'static str, status: Status) -> Result<(), CudaError> {
    library(call, status, &Status::CUBLAS_STATUS_SUCCESS)
}

fn data_type(dtype: DType) -> lt::cudaDataType {
    match dtype {
        DType::F64 => lt::cudaDataType::CUDA_R_64F,
        DType::F32 => lt::cudaDataType::CUDA_R_32F,
        DType::F16 => lt::cudaDataType::CUDA_R_16F,
        DType::BF16 => lt::cudaDataType::CUDA_R_16BF,
        DType::I64 | DType::Bool | DType::U8 => unreachable!("matrix products are of floating types"),
    }
}

impl Key {
    fn new(p: &Product, addend: Addend, workspace: Workspace) -> Self {
        let alignment = |address: u64| 1u32 << address.trailing_zeros().min(8);
        let (bias, accumulates) = match addend {
            Addend::Scaled(beta) => (0, beta != 0.0),
            Addend::Bias(address) => (address, false),
        };
        Self {
            dtype: p.dtype,
            sizes: [p.m, p.n, p.k],
            strides: [p.a.row_stride, p.a.column_stride, p.b.row_stride, p.b.column_stride],
            alignments: [p.a.address, p.b.address, p.c, bias].map(alignment),
            bias: bias != 0,
            accumulates,
            workspace: workspace.bytes,
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { dtype, sizes: [m, n, k], strides: s, alignments: a, bias, accumulates, workspace } = self;
        let added = if *bias { "bias" } else { ["zero", "old"][usize::from(*accumulates)] };
        write!(f, "{dtype} {m} {n} {k} {} {} {} {} {} {} {} {} {added} {workspace}", s[0], s[1], s[2], s[3], a[0], a[1], a[2], a[3])
    }
}

impl Cuda {
    /// Computes `c = a · b` and what is to be added. Whether it could: there are shapes and GPUs for which the library has nothing.
    pub(super) fn matmul(&self, workspace: Workspace, p: &Product, addend: Addend) -> Result<bool, CudaError> {
        if p.k == 0 {
            return Ok(false);
        }
        let key = Key::new(p, addend, workspace);
        if let Some(known) = self.lt.plans.borrow().get(&key) {
            let Some(Plan { operation, algorithm }) = known else { return Ok(false) };
            return self.run(operation, algorithm, workspace, p, addend).map(|()| true);
        }
        // The first run loads the kernel.
        let plan = self.counted(|| {
            let plan = self.plan(&key, workspace, p, addend)?;
            if let Some(Plan { operation, algorithm }) = &plan {
                self.run(operation, algorithm, workspace, p, addend)?;
            }
            Ok(plan)
        })?;
        let found = plan.is_some();
        self.lt.plans.borrow_mut().insert(key, plan);
        Ok(found)
    }

    fn run(
        &self,
        operation: &Operation,
        algorithm: &Algorithm,
        workspace: Workspace,
        p: &Product,
        addend: Addend,
    ) -> Result<(), CudaError> {
        let beta = match addend {
            Addend::Scaled(beta) => beta,
            Addend::Bias(address) => {
                operation.description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address)?;
                0.0
            }
        };
        let (one, beta) = (Scale::new(1.0, p.dtype), Scale::new(beta, p.dtype));
        let [b, a, c] = &operation.layouts;
        // SAFETY: the operation's objects live; the matrices, the bias and the workspace are live blocks of the stated
        // shapes, as whoever owns them promises; scales live through the call.
        status("cublasLtMatmul", unsafe {
            lt::cublasLtMatmul(
                self.lt_handle()?,
                operation.description.0,
                one.pointer(),
                p.b.address as *const c_void,
                b.0,
                p.a.address as *const c_void,
                a.0,
                beta.pointer(),
                p.c as *const c_void,
                c.0,
                p.c as *mut c_void,
                c.0,
                algorithm,
                workspace.address as *mut c_void,
                workspace.bytes as usize,
                std::ptr::null_mut(),
            )
        })
    }

    fn lt_handle(&self) -> Result<lt::cublasLtHandle_t, CudaError> {
        if let Some(&handle) = self.lt.handle.get() {
            return Ok(handle);
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` takes the handle, made in the current context.
        status("cublasLtCreate", unsafe { lt::cublasLtCreate(&raw mut handle) })?;
        Ok(*self.lt.handle.get_or_init(|| handle))
    }

    fn plan(&self, key: &Key, workspace: Workspace, p: &Product, addend: Addend) -> Result<Option<Plan>, CudaError> {
        let operation = Operation::new(p, addend)?;
        let algorithms = self.lt.algorithms.get_or_init(|| Algorithms::load(&self.facts.gpu));
        let kept = algorithms.get(&key.to_string()).filter(|kept| self.can_run(&operation, kept, workspace));
        let found = match kept {
            Some(algorithm) => Some(algorithm),
            None => {
                let candidates = self.candidates(key, &operation)?;
                // What is added to would be added to each time.
                let best = if key.accumulates { 0 } else { self.fastest(&operation, &candidates, workspace, p, addend)? };
                let best = candidates.get(best).copied();
                if let Some(best) = best {
                    algorithms.put(key.to_string(), best);
                }
                best
            }
        };
        Ok(found.map(|algorithm| Plan { operation, algorithm }))
    }

    /// The number of the algorithm that takes the least time.
    fn fastest(
        &self,
        operation: &Operation,
        candidates: &[Algorithm],
        workspace: Workspace,
        p: &Product,
        addend: Addend,
    ) -> Result<usize, CudaError> {
        if candidates.len() < 2 {
            return Ok(0);
        }
        let timer = Timer::new()?;
        let mut best = (f32::INFINITY, 0);
        let mut spent = 0.0;
        for (number, algorithm) in candidates.iter().enumerate() {
            let run = || self.run(operation, algorithm, workspace, p, addend);
            // The first time loads the kernel. A candidate may be refused when it is run; another will do.
            if timer.milliseconds(run).is_err() {
                continue;
            }
            let once = timer.milliseconds(run)?;
            // Short ones several times in a row, so that the launch, which takes microseconds, does not count.
            let (rounds, times) = if once > 1.0 { (0, 1) } else { (3, 4) };
            let mut least = once;
            for _ in 0..rounds {
                let time = timer.milliseconds(|| (0..times).try_for_each(|_| run()))?;
                least = least.min(time / times as f32);
                spent += time;
            }
            spent += once;
            // An earlier one is the library's choice: it gives way to what is clearly faster.
            if least < CLEARLY_FASTER * best.0 {
                best = (least, number);
            }
            if spent > MOST_MILLISECONDS {
                break;
            }
        }
        Ok(best.1)
    }

    /// Whether an algorithm that was kept fits.
    fn can_run(&self, operation: &Operation, algorithm: &Algorithm, workspace: Workspace) -> bool {
        let Ok(handle) = self.lt_handle() else { return false };
        let Operation { description, layouts: [b, a, c] } = operation;
        // SAFETY: a C struct of numbers, for which all zeros is a value.
        let mut result: lt::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        // SAFETY: the objects live; the algorithm is read as numbers and checked, `result` takes the answer.
        let answer = unsafe { lt::cublasLtMatmulAlgoCheck(handle, description.0, b.0, a.0, c.0, c.0, algorithm, &raw mut result) };
        answer == Status::CUBLAS_STATUS_SUCCESS && result.workspaceSize as u64 <= workspace.bytes
    }

    /// What the library would run, the fastest by its own opinion first; nothing where it has nothing.
    fn candidates(&self, key: &Key, operation: &Operation) -> Result<Vec<Algorithm>, CudaError> {
        let handle = self.lt_handle()?;
        let Operation { description, layouts: [b, a, c] } = operation;
        let preferences = Preferences::new()?;
        preferences.set(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &key.workspace)?;
        let [of_a, of_b, of_c, _] = key.alignments;
        preferences.set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &of_b)?;
        preferences.set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &of_a)?;
        preferences.set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &of_c)?;
        preferences.set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &of_c)?;
        // SAFETY: C structs of numbers, for which all zeros is a value.
        let mut results: [lt::cublasLtMatmulHeuristicResult_t; CANDIDATES] = unsafe { std::mem::zeroed() };
        let mut found = 0;
        let (room, first) = (CANDIDATES as i32, results.as_mut_ptr());
        // SAFETY: all objects live; as many results are asked for as there is room for.
        let answer = unsafe {
            lt::cublasLtMatmulAlgoGetHeuristic(handle, description.0, b.0, a.0, c.0, c.0, preferences.0, room, first, &raw mut found)
        };
        match answer {
            Status::CUBLAS_STATUS_SUCCESS => {
                let found = &results[..usize::try_from(found).unwrap_or(0).min(CANDIDATES)];
                Ok(found.iter().filter(|r| r.state == Status::CUBLAS_STATUS_SUCCESS).map(|r| r.algo).collect())
            }
            Status::CUBLAS_STATUS_NOT_SUPPORTED => Ok(Vec::new()),
            other => status("cublasLtMatmulAlgoGetHeuristic", other).map(|()| Vec::new()),
        }
    }
}

impl Operation {
    fn new(p: &Product, addend: Addend) -> Result<Self, CudaError> {
        let (transpose_a, stride_a) = column_major(p.a, p.m, p.k);
        let (transpose_b, stride_b) = column_major(p.b, p.k, p.n);
        let description = Description::new(p.dtype)?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &(transpose_b as i32))?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &(transpose_a as i32))?;
        if let Addend::Bias(address) = addend {
            description.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as i32))?;
            description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address)?;
        }
        let stored = |transpose, rows, columns| if is_transposed(transpose) { (columns, rows) } else { (rows, columns) };
        let layouts = [
            Layout::new(p.dtype, stored(transpose_b, p.n, p.k), stride_b)?,
            Layout::new(p.dtype, stored(transpose_a, p.k, p.m), stride_a)?,
            Layout::new(p.dtype, (p.n, p.m), p.n)?,
        ];
        Ok(Self { description, layouts })
    }
}

impl Description {
    fn new(dtype: DType) -> Result<Self, CudaError> {
        let compute = match dtype {
            DType::F64 => lt::cublasComputeType_t::CUBLAS_COMPUTE_64F,
            _ => lt::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` takes the handle.
        status("cublasLtMatmulDescCreate", unsafe { lt::cublasLtMatmulDescCreate(&raw mut raw, compute, data_type(dtype.accumulator())) })?;
        Ok(Self(raw))
    }

    fn set<T>(&self, attribute: Attribute, value: &T) -> Result<(), CudaError> {
        // SAFETY: the description lives; the library copies as many bytes as the value has.
        status("cublasLtMatmulDescSetAttribute", unsafe {
            lt::cublasLtMatmulDescSetAttribute(self.0, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
        })
    }
}

impl Layout {
    fn new(dtype: DType, (rows, columns): (u64, u64), stride: u64) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` takes the handle.
        status("cublasLtMatrixLayoutCreate", unsafe {
            lt::cublasLtMatrixLayoutCreate(&raw mut raw, data_type(dtype), rows, columns, stride.cast_signed())
        })?;
        Ok(Self(raw))
    }
}

impl Preferences {
    fn new() -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` takes the handle.
        status("cublasLtMatmulPreferenceCreate", unsafe { lt::cublasLtMatmulPreferenceCreate(&raw mut raw) })?;
        Ok(Self(raw))
    }

    fn set<T>(&self, attribute: Preference, value: &T) -> Result<(), CudaError> {
        // SAFETY: the preferences live; the library copies as many bytes as the value has.
        status("cublasLtMatmulPreferenceSetAttribute", unsafe {
            lt::cublasLtMatmulPreferenceSetAttribute(self.0, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
        })
    }
}

impl Lt {
    pub(super) fn close(&mut self) {
        if let Some(algorithms) = self.algorithms.take() {
            algorithms.keep();
        }
        self.plans.get_mut().clear();
        if let Some(handle) = self.handle.take() {
            // SAFETY: made once, used no more. An answer has nobody to go to.
            let _ = unsafe { lt::cublasLtDestroy(handle) };
        }
    }
}
