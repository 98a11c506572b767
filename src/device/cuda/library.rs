//! CUDA's shared libraries: which are here, asked for before anything calls into them (a call into a missing one would panic).
//!
//! Libraries are asked for by the names that carry a version, in the loader's order (`LD_LIBRARY_PATH` first), and cuBLAS is taken from
//! beside cuBLASLt, which it calls: two versions of one library in a process do not go together. Invariant: a library found once stays
//! loaded, so what is found here is what later calls use.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::bindings::{cublas, cublaslt, cudnn, driver, nvrtc};
use super::error::{CudaError, MissingLibrary};

/// A library that the CUDA device uses, or may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// The driver.
    Driver,
    /// The run-time compiler of kernels.
    Nvrtc,
    /// Matrix products.
    Cublas,
    /// Matrix products with an epilogue.
    CublasLt,
    /// Convolutions, recurrent layers, attention.
    Cudnn,
}

/// Where a library was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file the loader took, or the name it was asked for where that cannot be told.
    pub path: String,
}

type Answer = Result<Found, MissingLibrary>;

/// A search that is over.
struct Searched {
    answer: Answer,
    /// Where it was found: the library, and which of the names it had.
    loaded: Option<(libloading::Library, usize)>,
}

impl Library {
    /// Every library, in the order in which reports name them.
    pub const ALL: [Self; 5] = [Self::Driver, Self::Nvrtc, Self::Cublas, Self::CublasLt, Self::Cudnn];

    /// What dense networks need.
    pub(super) const NEEDED: [Self; 4] = [Self::Driver, Self::Nvrtc, Self::Cublas, Self::CublasLt];

    /// The name people know it by.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Driver => "the driver's library",
            Self::Nvrtc => "NVRTC",
            Self::Cublas => "cuBLAS",
            Self::CublasLt => "cuBLASLt",
            Self::Cudnn => "cuDNN",
        }
    }

    /// The names of its files, the newest version first.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let versions = |windows: fn(u32) -> String, stem: &str, versions: &[u32]| {
            let name = |&v: &u32| if cfg!(windows) { windows(v) } else { format!("lib{stem}.so.{v}") };
            versions.iter().map(name).collect()
        };
        match self {
            // cudarc loads the driver by names of its own.
            Self::Driver => cudarc::get_lib_name_candidates(if cfg!(windows) { "nvcuda" } else { "cuda" }),
            Self::Nvrtc => versions(|v| format!("nvrtc64_{v}0_0.dll"), "nvrtc", &[13, 12]),
            Self::Cublas => versions(|v| format!("cublas64_{v}.dll"), "cublas", &[13, 12]),
            Self::CublasLt => versions(|v| format!("cublasLt64_{v}.dll"), "cublasLt", &[13, 12]),
            Self::Cudnn => versions(|v| format!("cudnn64_{v}.dll"), "cudnn", &[9]),
        }
    }

    /// What of it is called; a file without one of these is too old.
    const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Driver => driver::FUNCTIONS,
            Self::Nvrtc => nvrtc::FUNCTIONS,
            Self::Cublas => cublas::FUNCTIONS,
            Self::CublasLt => cublaslt::FUNCTIONS,
            Self::Cudnn => cudnn::FUNCTIONS,
        }
    }

    /// Loads it, or says where it was looked for. The search happens once a process.
    pub fn find(self) -> &'static Answer {
        &self.searched().answer
    }

    fn searched(self) -> &'static Searched {
        static SEARCHED: [OnceLock<Searched>; 5] = [const { OnceLock::new() }; 5];
        SEARCHED[self as usize].get_or_init(|| self.search())
    }

    /// First by name, as the loader searches (`LD_LIBRARY_PATH`, the system's folders); then in a CUDA toolkit's folders.
    fn search(self) -> Searched {
        let mut tried = Vec::new();
        for (candidate, version) in self.candidates() {
            // SAFETY: NVIDIA's libraries have no initialisers but their own; loading one runs nothing of ours.
            let Ok(library) = (unsafe { libloading::Library::new(&candidate) }) else {
                let name = candidate.display().to_string();
                if !tried.contains(&name) {
                    tried.push(name);
                }
                continue;
            };
            match address_of_all(&library, self.functions()) {
                Ok(address) => {
                    let path = file_at(address).unwrap_or_else(|| candidate.display().to_string());
                    return Searched { answer: Ok(Found { path }), loaded: Some((library, version)) };
                }
                Err(absent) => tried.push(format!("{}, which has no {absent}", candidate.display())),
            }
        }
        tried.extend(toolkit_folders().iter().map(|folder| format!("{}/", folder.display())));
        Searched { answer: Err(MissingLibrary { title: self.title(), tried }), loaded: None }
    }

    /// What to load, in order, each with the number of its name among [`names`](Self::names).
    fn candidates(self) -> Vec<(PathBuf, usize)> {
        let names: Vec<(String, usize)> = self.names().into_iter().zip(0..).collect();
        let within = |folders: &[PathBuf], names: &[(String, usize)]| -> Vec<(PathBuf, usize)> {
            let all = folders.iter().flat_map(|folder| names.iter().map(|(name, number)| (folder.join(name), *number)));
            all.filter(|(path, _)| path.exists()).collect()
        };
        let as_named = |names: &[(String, usize)]| names.iter().map(|(name, number)| (PathBuf::from(name), *number)).collect::<Vec<_>>();
        if self == Self::Cublas
            && let (Ok(beside), Some((_, version))) = (Self::CublasLt.find(), &Self::CublasLt.searched().loaded)
        {
            let names = &names[*version..=*version];
            let folder = Path::new(&beside.path).parent().map(Path::to_path_buf);
            return [within(folder.as_slice(), names), as_named(names)].concat();
        }
        // One found in a toolkit answers to its name from then on, being loaded. (An unversioned name would not be found again.)
        let versioned: Vec<_> = names.iter().filter(|(name, _)| !name.ends_with(".so")).cloned().collect();
        [as_named(&names), within(&toolkit_folders(), &versioned)].concat()
    }

    /// A function of the library.
    ///
    /// # Panics
    /// The library was not found, or has no such function.
    ///
    /// # Safety
    /// `F` is the function's type.
    pub(super) unsafe fn function<F: Copy>(self, name: &str) -> F {
        let (library, _) = self.searched().loaded.as_ref().expect("a library is asked for before it is called");
        // SAFETY: the caller's.
        *unsafe { library.get::<F>(name) }.expect("the search took no file that lacks a function")
    }

    /// Its own version, e.g. `13.0`; `None` where it is missing or does not say. (The driver's is
    /// [`driver_version`](super::driver_version).)
    #[must_use]
    pub fn version(self) -> Option<String> {
        self.find().as_ref().ok()?;
        match self {
            Self::Driver => None,
            Self::Nvrtc => {
                let (mut major, mut minor) = (0, 0);
                // SAFETY: the library is loaded; both take numbers.
                let status = unsafe { nvrtc::nvrtcVersion(&raw mut major, &raw mut minor) };
                (status == nvrtc::nvrtcResult::NVRTC_SUCCESS).then(|| format!("{major}.{minor}"))
            }
            Self::Cublas => {
                let part = |which| {
                    let mut value = 0;
                    // SAFETY: the library is loaded; `value` takes the number.
                    let status = unsafe { cublas::cublasGetProperty(which, &raw mut value) };
                    (status == cublas::cublasStatus_t::CUBLAS_STATUS_SUCCESS).then_some(value)
                };
                use cublas::libraryPropertyType_t as Part;
                Some(format!("{}.{}.{}", part(Part::MAJOR_VERSION)?, part(Part::MINOR_VERSION)?, part(Part::PATCH_LEVEL)?))
            }
            // SAFETY: the library is loaded; the calls take nothing and give a number.
            Self::CublasLt => Some(three_parts(unsafe { cublaslt::cublasLtGetVersion() })),
            // SAFETY: as above.
            Self::Cudnn => Some(three_parts(unsafe { cudnn::cudnnGetVersion() })),
        }
    }
}

/// A version packed as `major * 10000 + minor * 100 + patch`.
fn three_parts(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version % 10_000 / 100, version % 100)
}

/// Where the first of some functions lies.
///
/// # Errors
/// The name of one that the library does not have.
fn address_of_all(library: &libloading::Library, functions: &[&'static str]) -> Result<usize, &'static str> {
    let mut first = None;
    for &name in functions {
        // SAFETY: the function is looked up, not called.
        let function = unsafe { library.get::<*const ()>(name) }.map_err(|_| name)?;
        first.get_or_insert(*function as usize);
    }
    Ok(first.unwrap_or(0))
}

/// Where a CUDA toolkit keeps libraries, if one is installed.
fn toolkit_folders() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    named
        .chain([PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")])
        .flat_map(|root| ["lib64", "lib", "targets/x86_64-linux/lib"].map(|sub| root.join(sub)))
        .collect()
}

/// The file that is mapped at an address, from the list of this process's mappings.
fn file_at(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| {
        let bounds = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        bounds.is_some_and(|(start, end)| number(start).is_some_and(|s| s <= address) && number(end).is_some_and(|e| address < e))
    })?;
    line.find('/').map(|at| line[at..].to_owned())
}

/// Makes sure that all of `libraries` are loaded.
///
/// # Errors
/// [`CudaError::Missing`], naming all that are missing and the places tried.
pub(super) fn require(libraries: &[Library]) -> Result<(), CudaError> {
    let missing: Vec<MissingLibrary> = libraries.iter().filter_map(|l| l.find().as_ref().err().cloned()).collect();
    if missing.is_empty() { Ok(()) } else { Err(CudaError::Missing(missing)) }
}
