//! Arguments that several commands share.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

use anstream::ColorChoice;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::alloc::AllocatorConfig;
use crate::experiment::{Case, Overrides};
use crate::gpu::{self, Gpu};
use crate::ops::RuleContext;
use crate::predict::predict;
use crate::report::number::bytes;
use crate::scratch::{Asked, Calibrated, Recorded, Rules, Scratch};

use super::exit::Failure;

/// What computes and where segments come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceName {
    /// The GPU where there is one, else the host.
    Auto,
    /// A GPU, by its number.
    Cuda(u32),
    /// The CPU, with host memory.
    Host,
    /// Nothing computes and no memory is taken: whatever the GPU stood in for would hold, in milliseconds.
    Virtual,
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let number = name.strip_prefix("cuda:").map(str::parse);
        match (name, number) {
            ("auto", _) => Ok(Self::Auto),
            ("cuda", _) => Ok(Self::Cuda(0)),
            ("host", _) => Ok(Self::Host),
            ("virtual", _) => Ok(Self::Virtual),
            (_, Some(Ok(ordinal))) => Ok(Self::Cuda(ordinal)),
            _ => Err("devices are auto, cuda (or cuda:1, cuda:2, … for another GPU than the first), host, virtual".to_owned()),
        }
    }
}

/// A size in bytes, as `24GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = bytes(text).filter(|b| (1..1 << 60).contains(b)).map(Self);
        bytes.ok_or_else(|| {
            // A bare letter is 1,000s to some and 1,024s to others.
            let number = text.strip_suffix(['K', 'M', 'G', 'T', 'k', 'm', 'g', 't']).filter(|n| n.ends_with(|c: char| c.is_ascii_digit()));
            let either = number.map(|number| {
                let letter = text[number.len()..].to_ascii_uppercase();
                format!("; is {text} meant as {number}{letter}iB or as {number}{letter}B?")
            });
            format!("sizes are bytes, with a unit: 24GiB, 23.14GiB, 512MiB, 16GB; at least 1 B{}", either.unwrap_or_default())
        })
    }
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Makes every stream of this process follow the choice.
    pub(super) fn apply(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// What of an experiment to change.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Changes {
    /// Override a key or sweep over it, e.g. `train.batch_size=8` or `train.dtype=f32,bf16`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Leave out a key that the file or its sweep sets, e.g. `train.amp`; may be repeated, and comes before --set
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
}

impl Changes {
    /// As the language takes them.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides { set: self.set.clone(), unset: self.unset.clone() }
    }
}

/// Which experiments, and what of them to change.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Files {
    /// Experiment files, or folders of them
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) changes: Changes,
    /// The GPU whose memory behaviour counts where no GPU takes part
    #[arg(long, value_name = "NAME", default_value = gpu::DEFAULT, value_parser = gpu_named())]
    pub(super) gpu: &'static Gpu,
    /// Allocator settings in PyTorch's notation, e.g. "max_split_size_mb:32", instead of the files' own but for memory_limit; `env`
    /// takes them from PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF
    #[arg(long, value_name = "SETTINGS")]
    pub(super) allocator: Option<Settings>,
    /// The run file of a run on such a GPU: its libraries' scratch counts where no GPU takes part, not the rules'
    #[arg(long, value_name = "RUN.toml", conflicts_with = "trees")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    calibration: Calibration,
}

/// What libraries ask for, as somebody tells who is no library: any thread may ask.
pub(super) type Told = dyn Scratch + Send + Sync;

/// Whose convolutions count, of every command that predicts.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Calibration {
    /// What `runner calibrate` wrote on such a GPU: its convolutions' scratch counts where no GPU takes part, not an H200's
    #[arg(long = "calibration", value_name = "TREES")]
    trees: Option<PathBuf>,
}

impl Calibration {
    /// What libraries ask for where `gpu` does not take part.
    ///
    /// # Errors
    /// The file named is none, or another GPU's.
    pub(super) fn scratch(&self, gpu: &Gpu) -> Result<Rc<Told>, Failure> {
        match &self.trees {
            Some(path) => Ok(Rc::new(Calibrated::read(path, gpu).map_err(Failure::usage)?)),
            None => Ok(Rc::new(Rules)),
        }
    }

    /// The file named, if there is one.
    pub(super) fn file(&self) -> Option<&Path> {
        self.trees.as_deref()
    }

    /// Refuses the option where `path` is nothing that runs.
    ///
    /// # Errors
    /// It was given.
    pub(super) fn none_of(&self, path: &Path) -> Result<(), Failure> {
        let refused = |_| Err(Failure::usage(format!("--calibration is for experiments, and {} is none", path.display())));
        self.trees.as_ref().map_or(Ok(()), refused)
    }
}

impl Files {
    /// What is read besides the experiments.
    pub(super) fn besides(&self) -> impl Iterator<Item = &Path> {
        self.scratch.as_deref().into_iter().chain(self.calibration.file())
    }

    /// Whether the file named by `--scratch`, if there is one, holds all that these cases ask libraries for.
    ///
    /// # Errors
    /// The file named is none, another GPU's, or lacks something.
    pub(super) fn check_scratch<'a>(&self, gpu: &Gpu, cases: impl IntoIterator<Item = &'a Case>) -> Result<(), Failure> {
        let Some(path) = &self.scratch else { return Ok(()) };
        let recorded = Rc::new(Recorded::read(path, self.gpu).map_err(Failure::usage)?);
        let asked = Asked::new(recorded.clone());
        for case in cases {
            // For what it asks on the way.
            let _ = predict(&case.work, RuleContext { gpu, scratch: &asked }, case.allocator.clone());
        }
        recorded.covers(asked.take().keys()).map_err(Failure::usage)
    }

    /// What libraries ask for where no GPU takes part.
    ///
    /// # Errors
    /// The file named is none, or another GPU's.
    pub(super) fn scratch(&self) -> Result<Rc<Told>, Failure> {
        match &self.scratch {
            Some(path) => Ok(Rc::new(Recorded::read(path, self.gpu).map_err(Failure::usage)?)),
            None => self.calibration.scratch(self.gpu),
        }
    }
}

/// Allocator settings as text, and what they mean.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Settings {
    /// In PyTorch's notation.
    pub(super) text: String,
    /// Read.
    pub(super) config: AllocatorConfig,
}

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, origin) = if text == "env" { from_environment() } else { (text.to_owned(), String::new()) };
        let config = text.parse().map_err(|mistake| format!("{origin}{mistake}"))?;
        Ok(Self { text, config })
    }
}

/// The settings that PyTorch would find in this process's environment, and the variable they are in. Of two, PyTorch's CUDA
/// allocator goes by the older name.
fn from_environment() -> (String, String) {
    // What is no Unicode is no setting, and is refused as such.
    let of = |name: &str| std::env::var_os(name).map(|text| (text.to_string_lossy().into_owned(), format!("{name}: ")));
    of("PYTORCH_CUDA_ALLOC_CONF").or_else(|| of("PYTORCH_ALLOC_CONF")).unwrap_or_default()
}

/// Reads a GPU's name; help and completions list all there are.
pub(super) fn gpu_named() -> impl TypedValueParser<Value = &'static Gpu> {
    PossibleValuesParser::new(gpu::CATALOGUE.iter().map(|gpu| gpu.name)).map(|name| Gpu::named(&name).expect("it is in the catalogue"))
}
