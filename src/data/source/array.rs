//! Files that are one array each: inputs in one, targets in another, the first dimension counting samples. Only the header differs
//! between formats.

use std::path::Path;

use super::Source;
use super::element::Element;
use super::file::At;
use crate::data::error::{DataError, Place};
use crate::data::sample::{Array, Layout, Part, Sample, elements};

/// What a header says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) element: Element,
    pub(super) shape: Vec<u64>,
    /// Where the numbers begin.
    pub(super) offset: u64,
}

/// One array in one file.
#[derive(Debug)]
struct Stored {
    file: At,
    element: Element,
    samples: u64,
    /// Of one sample.
    shape: Vec<u64>,
    offset: u64,
    /// Of one sample.
    bytes: usize,
}

impl Stored {
    fn open(header: fn(&At) -> Result<Header, DataError>, path: &Path) -> Result<Self, DataError> {
        let file = At::open(path)?;
        let Header { element, shape, offset } = header(&file)?;
        let refuse = |what: String| DataError::of_file(path, what);
        let Some((&samples, shape)) = shape.split_first() else {
            return Err(refuse("holds a single number, and not samples".to_owned()));
        };
        let bytes = elements(shape)
            .and_then(|n| n.checked_mul(element.bytes()))
            .ok_or_else(|| refuse(format!("samples of shape {shape:?} are too large")))?;
        let needed = samples.checked_mul(bytes as u64).and_then(|n| n.checked_add(offset));
        if needed.is_none_or(|n| n > file.length) {
            let whole = (file.length - offset.min(file.length)) / (bytes as u64).max(1);
            return Err(refuse(format!("the header says {samples} samples of shape {shape:?}, and the file ends after {whole} of them")));
        }
        Ok(Self { file, element, samples, shape: shape.to_vec(), offset, bytes })
    }

    fn part(&self) -> Part {
        Part { shape: self.shape.clone(), whole: self.element.whole() }
    }

    fn read(&self, number: u64) -> Result<Array, DataError> {
        let mut bytes = vec![0; self.bytes];
        self.file.read(self.offset + number * self.bytes as u64, &mut bytes, Place::Record(number + 1))?;
        Ok(Array { shape: self.shape.clone(), values: self.element.decode(&bytes) })
    }
}

/// Inputs and targets.
#[derive(Debug)]
pub(super) struct Arrays {
    input: Stored,
    target: Option<Stored>,
    layout: Layout,
}

impl Arrays {
    pub(super) fn open(header: fn(&At) -> Result<Header, DataError>, input: &Path, target: Option<&Path>) -> Result<Self, DataError> {
        let input = Stored::open(header, input)?;
        let target = target.map(|path| Stored::open(header, path)).transpose()?;
        if let Some(target) = target.as_ref().filter(|t| t.samples != input.samples) {
            let what = format!("has {} targets for the {} inputs in {}", target.samples, input.samples, input.file.path.display());
            return Err(DataError::of_file(&target.file.path, what));
        }
        let layout = Layout { input: input.part(), target: target.as_ref().map(Stored::part) };
        Ok(Self { input, target, layout })
    }
}

impl Source for Arrays {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn samples(&self) -> u64 {
        self.input.samples
    }

    fn read(&self, number: u64) -> Result<Sample, DataError> {
        Ok(Sample { input: self.input.read(number)?, target: self.target.as_ref().map(|t| t.read(number)).transpose()? })
    }

    fn place(&self, number: u64) -> (&Path, Place) {
        (&self.target.as_ref().unwrap_or(&self.input).file.path, Place::Record(number + 1))
    }
}
