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

/// A product that cuBLASLt is ready to run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    description: lt::cublasLtMatmulDesc_t,
    /// Of b, a and c, as the library sees them.
    layouts: [lt::cublasLtMatrixLayout_t; 3],
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
        let known = self.lt.plans.borrow().get(&key).copied();
        let Some(plan) = known else {
            // The first run loads the kernel.
            let plan = self.counted(|| {
                let plan = self.plan(&key, workspace, p, addend)?;
                plan.as_ref().map_or(Ok(()), |plan| self.run(plan, workspace, p, addend)).map(|()| plan)
            })?;
            self.lt.plans.borrow_mut().insert(key, plan);
            return Ok(plan.is_some());
        };
        let Some(plan) = plan else { return Ok(false) };
        self.run(&plan, workspace, p, addend).map(|()| true)
    }

    fn run(&self, plan: &Plan, workspace: Workspace, p: &Product, addend: Addend) -> Result<(), CudaError> {
        let beta = match addend {
            Addend::Scaled(beta) => beta,
            Addend::Bias(address) => {
                set(plan.description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address)?;
                0.0
            }
        };
        let (one, beta) = (Scale::new(1.0, p.dtype), Scale::new(beta, p.dtype));
        let [b, a, c] = plan.layouts;
        // SAFETY: the plan's objects live as long as the context; the matrices, the bias and the workspace are live blocks of the stated
        // shapes, as whoever owns them promises; scales live through the call.
        status("cublasLtMatmul", unsafe {
            lt::cublasLtMatmul(
                self.lt_handle()?,
                plan.description,
                one.pointer(),
                p.b.address as *const c_void,
                b,
                p.a.address as *const c_void,
                a,
                beta.pointer(),
                p.c as *const c_void,
                c,
                p.c as *mut c_void,
                c,
                &raw const plan.algorithm,
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
        let (description, layouts) = describe(p, addend)?;
        let algorithms = self.lt.algorithms.get_or_init(|| Algorithms::load(&self.facts.gpu));
        let kept = algorithms.get(&key.to_string()).filter(|kept| self.can_run(description, layouts, kept, workspace));
        let found = match kept {
            Some(algorithm) => Some(algorithm),
            None => {
                let candidates = self.candidates(key, description, layouts)?;
                let plans: Vec<Plan> = candidates.into_iter().map(|algorithm| Plan { description, layouts, algorithm }).collect();
                // What is added to would be added to each time.
                let best = if key.accumulates { 0 } else { self.fastest(&plans, workspace, p, addend)? };
                let best = plans.get(best).map(|plan| plan.algorithm);
                if let Some(best) = best {
                    algorithms.put(key.to_string(), best);
                }
                best
            }
        };
        if found.is_none() {
            destroy(description, layouts);
        }
        Ok(found.map(|algorithm| Plan { description, layouts, algorithm }))
    }

    /// The number of the plan that takes the least time.
    fn fastest(&self, plans: &[Plan], workspace: Workspace, p: &Product, addend: Addend) -> Result<usize, CudaError> {
        if plans.len() < 2 {
            return Ok(0);
        }
        let timer = Timer::new()?;
        let mut best = (f32::INFINITY, 0);
        let mut spent = 0.0;
        for (number, plan) in plans.iter().enumerate() {
            // The first time loads the kernel. A candidate may be refused when it is run; another will do.
            if timer.milliseconds(|| self.run(plan, workspace, p, addend)).is_err() {
                continue;
            }
            let once = timer.milliseconds(|| self.run(plan, workspace, p, addend))?;
            // Short ones several times in a row, so that the launch, which takes microseconds, does not count.
            let (rounds, times) = if once > 1.0 { (0, 1) } else { (3, 4) };
            let mut least = once;
            for _ in 0..rounds {
                let time = timer.milliseconds(|| (0..times).try_for_each(|_| self.run(plan, workspace, p, addend)))?;
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
    fn can_run(
        &self,
        description: lt::cublasLtMatmulDesc_t,
        [b, a, c]: [lt::cublasLtMatrixLayout_t; 3],
        algorithm: &Algorithm,
        workspace: Workspace,
    ) -> bool {
        let Ok(handle) = self.lt_handle() else { return false };
        // SAFETY: a C struct of numbers, for which all zeros is a value.
        let mut result: lt::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        // SAFETY: the objects live; the algorithm is read as numbers and checked, `result` takes the answer.
        let answer = unsafe { lt::cublasLtMatmulAlgoCheck(handle, description, b, a, c, c, algorithm, &raw mut result) };
        answer == Status::CUBLAS_STATUS_SUCCESS && result.workspaceSize as u64 <= workspace.bytes
    }

    /// What the library would run, the fastest by its own opinion first; nothing where it has nothing.
    fn candidates(
        &self,
        key: &Key,
        description: lt::cublasLtMatmulDesc_t,
        [b, a, c]: [lt::cublasLtMatrixLayout_t; 3],
    ) -> Result<Vec<Algorithm>, CudaError> {
        let handle = self.lt_handle()?;
        let mut preference = std::ptr::null_mut();
        // SAFETY: `preference` takes the handle.
        status("cublasLtMatmulPreferenceCreate", unsafe { lt::cublasLtMatmulPreferenceCreate(&raw mut preference) })?;
        prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &key.workspace)?;
        let [of_a, of_b, of_c, _] = key.alignments;
        prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &of_b)?;
        prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &of_a)?;
        prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &of_c)?;
        prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &of_c)?;
        // SAFETY: C structs of numbers, for which all zeros is a value.
        let mut results: [lt::cublasLtMatmulHeuristicResult_t; CANDIDATES] = unsafe { std::mem::zeroed() };
        let mut found = 0;
        let (room, first) = (CANDIDATES as i32, results.as_mut_ptr());
        // SAFETY: all objects were made above; as many results are asked for as there is room for.
        let answer =
            unsafe { lt::cublasLtMatmulAlgoGetHeuristic(handle, description, b, a, c, c, preference, room, first, &raw mut found) };
        // SAFETY: made above, used no more.
        status("cublasLtMatmulPreferenceDestroy", unsafe { lt::cublasLtMatmulPreferenceDestroy(preference) })?;
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

/// The operation, and the layouts of b, a and c.
fn describe(p: &Product, addend: Addend) -> Result<(lt::cublasLtMatmulDesc_t, [lt::cublasLtMatrixLayout_t; 3]), CudaError> {
    let compute = match p.dtype {
        DType::F64 => lt::cublasComputeType_t::CUBLAS_COMPUTE_64F,
        _ => lt::cublasComputeType_t::CUBLAS_COMPUTE_32F,
    };
    let mut description = std::ptr::null_mut();
    // SAFETY: `description` takes the handle.
    status("cublasLtMatmulDescCreate", unsafe {
        lt::cublasLtMatmulDescCreate(&raw mut description, compute, data_type(p.dtype.accumulator()))
    })?;
    let (transpose_a, stride_a) = column_major(p.a, p.m, p.k);
    let (transpose_b, stride_b) = column_major(p.b, p.k, p.n);
    set(description, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &(transpose_b as i32))?;
    set(description, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &(transpose_a as i32))?;
    if let Addend::Bias(address) = addend {
        set(description, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as i32))?;
        set(description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address)?;
    }
    let stored = |transpose, rows, columns| if is_transposed(transpose) { (columns, rows) } else { (rows, columns) };
    let layouts = [
        layout(p.dtype, stored(transpose_b, p.n, p.k), stride_b)?,
        layout(p.dtype, stored(transpose_a, p.k, p.m), stride_a)?,
        layout(p.dtype, (p.n, p.m), p.n)?,
    ];
    Ok((description, layouts))
}

fn layout(dtype: DType, (rows, columns): (u64, u64), stride: u64) -> Result<lt::cublasLtMatrixLayout_t, CudaError> {
    let mut layout = std::ptr::null_mut();
    // SAFETY: `layout` takes the handle.
    status("cublasLtMatrixLayoutCreate", unsafe {
        lt::cublasLtMatrixLayoutCreate(&raw mut layout, data_type(dtype), rows, columns, stride.cast_signed())
    })?;
    Ok(layout)
}

fn set<T>(description: lt::cublasLtMatmulDesc_t, attribute: Attribute, value: &T) -> Result<(), CudaError> {
    // SAFETY: the description lives; the library copies as many bytes as the value has.
    status("cublasLtMatmulDescSetAttribute", unsafe {
        lt::cublasLtMatmulDescSetAttribute(description, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
    })
}

fn prefer<T>(preference: lt::cublasLtMatmulPreference_t, attribute: Preference, value: &T) -> Result<(), CudaError> {
    // SAFETY: the preference lives; the library copies as many bytes as the value has.
    status("cublasLtMatmulPreferenceSetAttribute", unsafe {
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

impl Lt {
    pub(super) fn close(&mut self) {
        if let Some(algorithms) = self.algorithms.take() {
            algorithms.keep();
        }
        for (_, plan) in self.plans.get_mut().drain() {
            if let Some(plan) = plan {
                destroy(plan.description, plan.layouts);
            }
        }
        if let Some(handle) = self.handle.take() {
            // SAFETY: made once, used no more. An answer has nobody to go to.
            let _ = unsafe { lt::cublasLtDestroy(handle) };
        }
    }
}
