//! Any file as bytes: each byte is a token, and the target of each token is the next one.

use std::path::Path;

use super::Source;
use super::file::At;
use crate::data::error::{DataError, Place};
use crate::data::sample::{Array, Layout, Part, Sample};

/// Windows over a file that touch one another.
#[derive(Debug)]
pub(super) struct Text {
    file: At,
    length: u64,
    layout: Layout,
}

impl Text {
    pub(super) fn open(path: &Path, length: u64) -> Result<Self, DataError> {
        let file = At::open(path)?;
        if file.length <= length {
            let what = format!("has {} bytes, and a sample takes {length} and the one behind them", file.length);
            return Err(DataError::of_file(path, what));
        }
        let part = Part { shape: vec![length], whole: true };
        Ok(Self { file, length, layout: Layout { input: part.clone(), target: Some(part) } })
    }
}

impl Source for Text {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn samples(&self) -> u64 {
        (self.file.length - 1) / self.length
    }

    fn read(&self, number: u64) -> Result<Sample, DataError> {
        let mut bytes = vec![0; usize::try_from(self.length + 1).expect("shorter than the file")];
        self.file.read(number * self.length, &mut bytes, Place::Record(number + 1))?;
        let array = |bytes: &[u8]| Array { shape: vec![self.length], values: bytes.iter().map(|&b| f64::from(b)).collect() };
        Ok(Sample { input: array(&bytes[..bytes.len() - 1]), target: Some(array(&bytes[1..])) })
    }

    fn place(&self, number: u64) -> (&Path, Place) {
        (&self.file.path, Place::Record(number + 1))
    }
}
