//! The catalogue of GPUs: what of memory behaviour depends on the model. Facts only; nothing here asks a device.

/// What PyTorch's memory use depends on, of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The name `--gpu` takes.
    pub name: &'static str,
    /// The name the driver gives.
    pub full_name: &'static str,
    /// `totalGlobalMem`, in bytes.
    pub total_memory: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most resident threads a multiprocessor holds.
    pub threads_per_multiprocessor: u32,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
}

/// Every GPU `--gpu` knows. Multiprocessors, threads and capabilities are NVIDIA's published figures (architecture whitepapers; CUDA
/// programming guide, compute-capability tables). Memory is what a driver reported on such a card, a little less than its name says and a
/// few MiB different from driver to driver: h200 was measured; the others are what NVIDIA's `deviceQuery` or PyTorch printed on one, b200's
/// rounded by it to 0.01 GiB.
pub const CATALOGUE: &[Gpu] = &[
    Gpu {
        name: "h200",
        full_name: "NVIDIA H200",
        total_memory: 150_109_880_320,
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        capability: (9, 0),
    },
    Gpu {
        name: "h100",
        full_name: "NVIDIA H100 80GB HBM3",
        total_memory: 85_017_755_648,
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        capability: (9, 0),
    },
    Gpu {
        name: "b200",
        full_name: "NVIDIA B200",
        total_memory: 191_501_434_880,
        multiprocessors: 148,
        threads_per_multiprocessor: 2048,
        capability: (10, 0),
    },
    Gpu {
        name: "a100-80gb",
        full_name: "NVIDIA A100-SXM4-80GB",
        total_memory: 85_095_874_560,
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
        capability: (8, 0),
    },
    Gpu {
        name: "a100-40gb",
        full_name: "NVIDIA A100-SXM4-40GB",
        total_memory: 42_298_834_944,
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
        capability: (8, 0),
    },
    Gpu {
        name: "rtx3090",
        full_name: "NVIDIA GeForce RTX 3090",
        total_memory: 25_438_126_080,
        multiprocessors: 82,
        threads_per_multiprocessor: 1536,
        capability: (8, 6),
    },
    Gpu {
        name: "rtx4090",
        full_name: "NVIDIA GeForce RTX 4090",
        total_memory: 25_250_627_584,
        multiprocessors: 128,
        threads_per_multiprocessor: 1536,
        capability: (8, 9),
    },
    Gpu {
        name: "t4",
        full_name: "Tesla T4",
        total_memory: 15_655_829_504,
        multiprocessors: 40,
        threads_per_multiprocessor: 1024,
        capability: (7, 5),
    },
    Gpu {
        name: "v100",
        full_name: "Tesla V100-SXM2-16GB",
        total_memory: 16_928_342_016,
        multiprocessors: 80,
        threads_per_multiprocessor: 2048,
        capability: (7, 0),
    },
    Gpu {
        name: "v100-32gb",
        full_name: "Tesla V100-SXM2-32GB",
        total_memory: 34_089_926_656,
        multiprocessors: 80,
        threads_per_multiprocessor: 2048,
        capability: (7, 0),
    },
];

/// The GPU that stands in where none is named.
pub const DEFAULT: &str = "h200";

/// What a GPU holds beside the allocator's segments while PyTorch trains on it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outside {
    /// The driver's context.
    pub context: u64,
    /// Code and buffers of cuBLAS and cuDNN.
    pub libraries: u64,
    /// Whether this was measured on that model, or reckoned from another.
    pub is_measured: bool,
}

impl Outside {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.context + self.libraries
    }
}

/// On an H200 (driver 580.159, CUDA 13.0): memory in use was 552,402,944 bytes once there was a context, and 734,855,168 after PyTorch's
/// cuBLAS and a cuDNN convolution with its backward.
const H200_CONTEXT: u64 = 552_402_944;
const H200_LIBRARIES: u64 = 734_855_168 - H200_CONTEXT;
/// Stack that a context holds for each thread that can be resident: `cudaLimitStackSize`'s default.
const fn stack_bytes(multiprocessors: u32, threads: u32) -> u64 {
    multiprocessors as u64 * threads as u64 * 1024
}

impl Gpu {
    /// The one that stands in where none is named.
    ///
    /// # Panics
    /// Never: it is in the catalogue.
    #[must_use]
    pub fn default_model() -> &'static Self {
        Self::named(DEFAULT).expect("the default is in the catalogue")
    }

    /// What is not the allocator's. A context holds stack for every thread that can be resident, so it follows the GPU's size; the rest of
    /// it is taken to be as large as on the H200.
    #[must_use]
    pub const fn outside(&self) -> Outside {
        let context = H200_CONTEXT - stack_bytes(132, 2048) + stack_bytes(self.multiprocessors, self.threads_per_multiprocessor);
        Outside { context, libraries: H200_LIBRARIES, is_measured: matches!(self.name.as_bytes(), b"h200") }
    }

    /// The catalogue's entry of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        CATALOGUE.iter().find(|g| g.name == name)
    }
}
