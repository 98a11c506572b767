//! Kernels: each source is compiled by NVRTC when a process first needs it for some types, and kept on disk for the next process. Who knows
//! what is coming can have it compiled beforehand, several sources at a time.
//!
//! A compiled source is named by a hash of all that goes into it: prelude, types, source, architecture, options, NVRTC's version.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CString, c_char};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys as cu;

use super::bindings::nvrtc::{self, nvrtcResult};
use super::cache;
use super::context::Cuda;
use super::error::{CudaError, driver, library};
use crate::meta::DType;

/// What every source begins with.
const PRELUDE: &str = include_str!("prelude.cuh");

const OPTIONS: &[&str] = &["--std=c++17"];

/// A file of kernels. Its address is its identity: make it a `static`.
#[derive(Debug)]
pub struct Source {
    /// For messages and the cache, e.g. `relu`.
    pub name: &'static str,
    /// CUDA C++, after the prelude and the definitions of its types.
    pub text: &'static str,
}

/// One kernel, compiled for the given element types: `T`, `U` and `V` in its source, as many as there are.
#[derive(Debug, Clone, Copy)]
pub struct Kernel<'a> {
    /// Where it is written.
    pub source: &'static Source,
    /// Its name there.
    pub entry: &'static str,
    /// The types it is made for.
    pub types: &'a [DType],
}

/// A source with its types. Sources are static, so their address tells them apart.
#[derive(PartialEq, Eq, Hash, Clone, Copy, Debug)]
struct ModuleKey {
    source: usize,
    types: u32,
}

impl ModuleKey {
    fn of(kernel: Kernel<'_>) -> Self {
        let types = kernel.types.iter().fold(1, |all, &t| all << 3 | t as u32);
        Self { source: std::ptr::from_ref(kernel.source) as usize, types }
    }
}

#[derive(Debug)]
pub(super) struct Modules {
    capability: (u32, u32),
    modules: RefCell<HashMap<ModuleKey, cu::CUmodule>>,
    functions: RefCell<HashMap<(ModuleKey, &'static str), cu::CUfunction>>,
    /// Compiled, but not loaded yet.
    images: RefCell<HashMap<ModuleKey, Vec<u8>>>,
    /// What a rehearsal would have loaded, and the kernels of it that it would have launched.
    noted: RefCell<HashMap<ModuleKey, (Program, BTreeSet<&'static str>)>>,
}

impl Modules {
    pub(super) fn new(capability: (u32, u32)) -> Self {
        Self {
            capability,
            modules: RefCell::default(),
            functions: RefCell::default(),
            images: RefCell::default(),
            noted: RefCell::default(),
        }
    }

    /// Remembers what a launch would need.
    pub(super) fn note(&self, kernel: Kernel<'_>) {
        let mut noted = self.noted.borrow_mut();
        noted.entry(ModuleKey::of(kernel)).or_insert_with(|| (Program::new(kernel), BTreeSet::new())).1.insert(kernel.entry);
    }

    /// The kernels that launches would have needed, by their source and its types.
    pub(super) fn noted(&self) -> BTreeMap<String, BTreeSet<&'static str>> {
        self.noted.borrow().values().map(|(program, entries)| (program.name.clone(), entries.clone())).collect()
    }

    /// Compiles what a rehearsal noted, several sources at a time. A source that fails is left to its first launch, which tells.
    pub(super) fn prepare(&self, rehearsal: &Self) {
        let noted = rehearsal.noted.take();
        let modules = self.modules.borrow();
        let noted = noted.into_iter().filter(|(key, _)| !modules.contains_key(key));
        let missing: Vec<(ModuleKey, Program)> = noted.map(|(key, (program, _))| (key, program)).collect();
        let Ok(compiler) = Compiler::for_capability(self.capability) else { return };
        let (next, images) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
        let work = || {
            while let Some((key, program)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Ok(image) = compiler.image(program) {
                    images.lock().expect("nothing panics while it holds this").insert(*key, image);
                }
            }
        };
        std::thread::scope(|scope| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len());
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        self.images.borrow_mut().extend(images.into_inner().expect("all threads have ended well"));
    }

    /// The kernel's handle; compiles and loads its source where that was not done yet.
    pub(super) fn function(&self, cuda: &Cuda, kernel: Kernel<'_>) -> Result<cu::CUfunction, CudaError> {
        let key = ModuleKey::of(kernel);
        if let Some(&function) = self.functions.borrow().get(&(key, kernel.entry)) {
            return Ok(function);
        }
        let module = cuda.counted(|| self.module(key, kernel))?;
        let name = CString::new(kernel.entry).expect("kernel names have no zero byte");
        let mut function = std::ptr::null_mut();
        // SAFETY: `module` is loaded; `function` takes the handle.
        driver("cuModuleGetFunction", unsafe { cu::cuModuleGetFunction(&raw mut function, module, name.as_ptr()) })?;
        self.functions.borrow_mut().insert((key, kernel.entry), function);
        Ok(function)
    }

    fn module(&self, key: ModuleKey, kernel: Kernel<'_>) -> Result<cu::CUmodule, CudaError> {
        if let Some(&module) = self.modules.borrow().get(&key) {
            return Ok(module);
        }
        let image = match self.images.borrow_mut().remove(&key) {
            Some(image) => image,
            None => Compiler::for_capability(self.capability)?.image(&Program::new(kernel))?,
        };
        let module = load(&image)?;
        self.modules.borrow_mut().insert(key, module);
        Ok(module)
    }

    pub(super) fn close(&mut self) {
        self.functions.get_mut().clear();
        for (_, module) in self.modules.get_mut().drain() {
            // SAFETY: loaded once, and no kernel of it is launched any more. An answer has nobody to go to.
            let _ = unsafe { cu::cuModuleUnload(module) };
        }
    }
}

/// A source with all that goes before it.
#[derive(Debug)]
struct Program {
    /// For messages and the cache, e.g. `softmax-f16-f32`.
    name: String,
    text: String,
}

impl Program {
    fn new(kernel: Kernel<'_>) -> Self {
        let types: String = kernel.types.iter().zip(["T", "U", "V"]).map(|(dtype, name)| format!("typedef {dtype} {name};\n")).collect();
        let source = kernel.source;
        Self {
            name: kernel.types.iter().fold(source.name.to_owned(), |name, dtype| format!("{name}-{dtype}")),
            text: format!("{PRELUDE}\n{types}#line 1 \"{}.cu\"\n{}", source.name, source.text),
        }
    }
}

fn load(image: &[u8]) -> Result<cu::CUmodule, CudaError> {
    let mut module = std::ptr::null_mut();
    // SAFETY: machine code or PTX as NVRTC gave it (PTX with its final zero); the driver checks what it reads.
    driver("cuModuleLoadData", unsafe { cu::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) })?;
    Ok(module)
}

/// NVRTC, for one architecture.
struct Compiler {
    version: (i32, i32),
    /// Machine code for `sm_`, or PTX for `compute_` where the GPU is newer than NVRTC.
    architecture: String,
    ptx: bool,
}

impl Compiler {
    fn for_capability(capability: (u32, u32)) -> Result<Self, CudaError> {
        let (mut version, mut count) = ((0, 0), 0);
        // SAFETY: the pointers take the numbers.
        check("nvrtcVersion", unsafe { nvrtc::nvrtcVersion(&raw mut version.0, &raw mut version.1) })?;
        // SAFETY: as above.
        check("nvrtcGetNumSupportedArchs", unsafe { nvrtc::nvrtcGetNumSupportedArchs(&raw mut count) })?;
        let mut known = vec![0; count.max(0) as usize];
        // SAFETY: the array is as long as NVRTC just said.
        check("nvrtcGetSupportedArchs", unsafe { nvrtc::nvrtcGetSupportedArchs(known.as_mut_ptr()) })?;
        let mine = (capability.0 * 10 + capability.1) as i32;
        let (architecture, ptx) = match known.iter().filter(|&&a| a <= mine).max() {
            Some(&best) if best < mine => (format!("compute_{best}"), true),
            _ => (format!("sm_{mine}"), false),
        };
        Ok(Self { version, architecture, ptx })
    }

    fn file_name(&self, program: &Program) -> String {
        let mut hasher = DefaultHasher::new();
        (&program.text, OPTIONS, self.version).hash(&mut hasher);
        format!("{}-{}-{:016x}.{}", program.name, self.architecture, hasher.finish(), if self.ptx { "ptx" } else { "cubin" })
    }

    /// From the disk, or compiled and kept there.
    fn image(&self, program: &Program) -> Result<Vec<u8>, CudaError> {
        let file = cache::folder("kernels").map(|folder| folder.join(self.file_name(program)));
        if let Some(image) = file.as_deref().and_then(|f| std::fs::read(f).ok()).filter(|image| !image.is_empty()) {
            return Ok(image);
        }
        let image = self.compile(program)?;
        if let Some(file) = &file {
            cache::keep(file, &image);
        }
        Ok(image)
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, CudaError> {
        let text = CString::new(program.text.as_str()).expect("sources have no zero byte");
        let mut handle = std::ptr::null_mut();
        // SAFETY: the text lives through the call; `handle` takes the handle.
        check("nvrtcCreateProgram", unsafe {
            nvrtc::nvrtcCreateProgram(&raw mut handle, text.as_ptr(), std::ptr::null(), 0, std::ptr::null(), std::ptr::null())
        })?;
        let image = self.compile_handle(handle, &program.name);
        // SAFETY: created above, used no more.
        let _ = unsafe { nvrtc::nvrtcDestroyProgram(&raw mut handle) };
        image
    }

    fn compile_handle(&self, program: nvrtc::nvrtcProgram, name: &str) -> Result<Vec<u8>, CudaError> {
        let options: Vec<CString> = std::iter::once(format!("--gpu-architecture={}", self.architecture))
            .chain(OPTIONS.iter().map(|&o| o.to_owned()))
            .map(|o| CString::new(o).expect("options have no zero byte"))
            .collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: `program` is alive, and the options outlive the call.
        let status = unsafe { nvrtc::nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr()) };
        if status == nvrtcResult::NVRTC_ERROR_COMPILATION {
            let log = output(program, "nvrtcGetProgramLog", nvrtc::nvrtcGetProgramLogSize, nvrtc::nvrtcGetProgramLog)?;
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
            return Err(CudaError::Compile { kernels: name.to_owned(), architecture: self.architecture.clone(), log });
        }
        check("nvrtcCompileProgram", status)?;
        if self.ptx {
            output(program, "nvrtcGetPTX", nvrtc::nvrtcGetPTXSize, nvrtc::nvrtcGetPTX)
        } else {
            output(program, "nvrtcGetCUBIN", nvrtc::nvrtcGetCUBINSize, nvrtc::nvrtcGetCUBIN)
        }
    }
}

/// One of NVRTC's outputs: its size is asked for first.
fn output(
    program: nvrtc::nvrtcProgram,
    call: &'static str,
    size_of: unsafe fn(nvrtc::nvrtcProgram, *mut usize) -> nvrtcResult,
    get: unsafe fn(nvrtc::nvrtcProgram, *mut c_char) -> nvrtcResult,
) -> Result<Vec<u8>, CudaError> {
    let mut size = 0;
    // SAFETY: `program` is alive; `size` takes the number.
    check(call, unsafe { size_of(program, &raw mut size) })?;
    let mut bytes = vec![0u8; size];
    // SAFETY: the buffer is as long as NVRTC just said.
    check(call, unsafe { get(program, bytes.as_mut_ptr().cast()) })?;
    Ok(bytes)
}

fn check(call: &'static str, status: nvrtcResult) -> Result<(), CudaError> {
    library(call, status, &nvrtcResult::NVRTC_SUCCESS)
}
