//! Algorithms of matrix products that were timed once: a text file for each GPU model and cuBLASLt version, a line a product. cuBLASLt
//! promises that its 64 bytes mean the same to the same version; whoever reads one still has the library check it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::bindings::cublaslt::cublasLtMatmulAlgo_t as Algorithm;
use super::cache;
use super::error::CudaError;
use super::event::{COMPUTING, Event};
use super::library::Library;
use crate::gpu::Gpu;

/// What is known, by the product's text.
#[derive(Debug)]
pub(super) struct Algorithms {
    file: Option<PathBuf>,
    known: RefCell<BTreeMap<String, Algorithm>>,
    is_new: Cell<bool>,
}

impl Algorithms {
    /// Those of an earlier process, if there are any.
    pub(super) fn load(gpu: &Gpu) -> Self {
        let version = Library::CublasLt.version().unwrap_or_default();
        let name: String = gpu.full_name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let file = cache::folder("products").map(|folder| folder.join(format!("{name}-cublasLt-{version}.txt")));
        let text = file.as_ref().and_then(|f| std::fs::read_to_string(f).ok()).unwrap_or_default();
        Self { file, known: RefCell::new(parse(&text)), is_new: Cell::new(false) }
    }

    pub(super) fn get(&self, product: &str) -> Option<Algorithm> {
        self.known.borrow().get(product).copied()
    }

    pub(super) fn put(&self, product: String, algorithm: Algorithm) {
        self.known.borrow_mut().insert(product, algorithm);
        self.is_new.set(true);
    }

    /// Writes the file, if there is anything new. What other processes have found out meanwhile stays.
    pub(super) fn keep(self) {
        let (Some(file), true) = (&self.file, self.is_new.get()) else { return };
        let mut all = parse(&std::fs::read_to_string(file).unwrap_or_default());
        for (product, algorithm) in self.known.into_inner() {
            all.entry(product).or_insert(algorithm);
        }
        cache::keep(file, render(&all).as_bytes());
    }
}

fn render(known: &BTreeMap<String, Algorithm>) -> String {
    let mut text = String::new();
    for (product, algorithm) in known {
        let _ = write!(text, "{product} =");
        algorithm.data.iter().for_each(|word| {
            let _ = write!(text, " {word:016x}");
        });
        text.push('\n');
    }
    text
}

/// Lines that are not as they are written are left out.
fn parse(text: &str) -> BTreeMap<String, Algorithm> {
    let line = |line: &str| {
        let (product, words) = line.split_once(" = ")?;
        let words: Vec<u64> = words.split(' ').map(|w| u64::from_str_radix(w, 16).ok()).collect::<Option<_>>()?;
        Some((product.to_owned(), Algorithm { data: words.try_into().ok()? }))
    };
    text.lines().filter_map(line).collect()
}

/// Two events on the GPU's clock.
pub(super) struct Timer {
    start: Event,
    end: Event,
}

impl Timer {
    pub(super) fn new() -> Result<Self, CudaError> {
        Ok(Self { start: Event::timed()?, end: Event::timed()? })
    }

    /// How long the GPU works on what `work` asks for.
    pub(super) fn milliseconds(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<f32, CudaError> {
        self.start.record(COMPUTING)?;
        work()?;
        self.end.record(COMPUTING)?;
        self.end.wait()?;
        self.end.milliseconds_since(&self.start)
    }
}
