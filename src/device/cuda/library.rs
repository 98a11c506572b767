//! CUDA's shared libraries: which are here, asked for before anything calls into them (a call into a missing one would panic).
//!
//! Invariant: a library found once stays loaded, so what is found here is what later calls use.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::cublas::sys as cublas;
use cudarc::cublaslt::sys as cublaslt;
use cudarc::cudnn::sys as cudnn;
use cudarc::nvrtc::sys as nvrtc;

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

    /// The stem of its file name, e.g. `cublas` of `libcublas.so.13`.
    const fn stem(self) -> &'static str {
        match self {
            Self::Driver => "cuda",
            Self::Nvrtc => "nvrtc",
            Self::Cublas => "cublas",
            Self::CublasLt => "cublasLt",
            Self::Cudnn => "cudnn",
        }
    }

    /// Loads it, or says where it was looked for. The search happens once a process.
    pub fn find(self) -> &'static Answer {
        static ANSWERS: [OnceLock<Answer>; 5] = [const { OnceLock::new() }; 5];
        ANSWERS[self as usize].get_or_init(|| self.search())
    }

    /// First by name, as the loader searches (`LD_LIBRARY_PATH`, the system's folders); then in a CUDA toolkit's folders. One of the latter
    /// answers to its name from then on, being loaded.
    fn search(self) -> Answer {
        let names = cudarc::get_lib_name_candidates(self.stem());
        let folders = toolkit_folders();
        let versioned = names.iter().filter(|n| is_versioned(n));
        let paths = folders.iter().flat_map(|folder| versioned.clone().map(|name| folder.join(name))).filter(|path| path.exists());
        for candidate in names.iter().map(PathBuf::from).chain(paths) {
            // SAFETY: NVIDIA's libraries have no initialisers but their own; loading one runs nothing of ours.
            if let Ok(library) = unsafe { libloading::Library::new(&candidate) } {
                std::mem::forget(library); // stays loaded to the end of the process
                return Ok(Found { path: loaded_path(self.stem()).unwrap_or_else(|| candidate.display().to_string()) });
            }
        }
        let mut tried = names;
        tried.extend(folders.iter().map(|folder| format!("{}/", folder.display())));
        Err(MissingLibrary { title: self.title(), tried })
    }
}

impl Library {
    /// Its own version, e.g. `13.0`; `None` where it is missing or does not say. (The driver's is [`driver_version`](super::driver_version).)
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

/// The loader finds a library loaded by its full path again by its versioned name alone.
fn is_versioned(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|end| end.bytes().all(|b| b.is_ascii_digit()))
}

/// Where a CUDA toolkit keeps libraries, if one is installed.
fn toolkit_folders() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    named
        .chain([PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")])
        .flat_map(|root| ["lib64", "lib", "targets/x86_64-linux/lib"].map(|sub| root.join(sub)))
        .collect()
}

/// The file behind a loaded library, from the list of this process's mappings.
fn loaded_path(stem: &str) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let file = format!("lib{stem}.so");
    maps.lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .find(|path| Path::new(path).file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(&file)))
        .map(str::to_owned)
}

/// Makes sure that all of `libraries` are loaded.
///
/// # Errors
/// [`CudaError::Missing`], naming all that are missing and the places tried.
pub(super) fn require(libraries: &[Library]) -> Result<(), CudaError> {
    let missing: Vec<MissingLibrary> = libraries.iter().filter_map(|l| l.find().as_ref().err().cloned()).collect();
    if missing.is_empty() { Ok(()) } else { Err(CudaError::Missing(missing)) }
}
