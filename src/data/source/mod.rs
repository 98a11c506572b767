//! Where samples come from: one file a format. A source reads any sample by its number, from several threads at once, and holds no samples:
//! a data set larger than memory works.
//!
//! Files are read at a position, not mapped: a file that shrinks while it is read is then an error with a name, where a mapped one would
//! end the process.

mod array;
mod csv;
mod element;
mod file;
mod idx;
mod npy;
mod text;
mod tfrecord;

use std::path::Path;

use super::error::{DataError, Place};
use super::sample::{Layout, Sample};
use super::settings::Files;

pub(super) use tfrecord::{Feature, Writer};

/// Samples by number.
pub trait Source: Send + Sync {
    /// What all of them have in common.
    fn layout(&self) -> &Layout;

    /// How many there are.
    fn samples(&self) -> u64;

    /// One of them.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, number: u64) -> Result<Sample, DataError>;

    /// Where it lies: the file and the place in it.
    fn place(&self, number: u64) -> (&Path, Place);
}

/// Opens files, with a look at all of what says where samples begin.
///
/// # Errors
/// A file is not there, or not what it should be.
pub fn open(files: &Files) -> Result<Box<dyn Source>, DataError> {
    Ok(match files {
        Files::Npy { input, target } => Box::new(array::Arrays::open(npy::header, input, target.as_deref())?),
        Files::Idx { input, target } => Box::new(array::Arrays::open(idx::header, input, target.as_deref())?),
        Files::Csv { file, target, scalar } => Box::new(csv::Csv::open(file, target, *scalar)?),
        Files::Text { file, length } => Box::new(text::Text::open(file, *length)?),
        Files::TfRecord { file, input, target } => Box::new(tfrecord::TfRecord::open(file, input, target)?),
    })
}

/// What the beginning of the files shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// What samples look like.
    pub layout: Layout,
    /// How many there are, where that is said before them or there are none; else only reading everything would tell.
    pub samples: Option<u64>,
}

/// What samples look like, from no more than the beginning of the files.
///
/// # Errors
/// A file is not there, or does not begin as it should.
pub fn inspect(files: &Files) -> Result<Glance, DataError> {
    match files {
        Files::Csv { file, target, scalar } => csv::inspect(file, target, *scalar),
        Files::TfRecord { file, input, target } => tfrecord::inspect(file, input, target).map(|layout| Glance { layout, samples: None }),
        Files::Npy { .. } | Files::Idx { .. } | Files::Text { .. } => {
            open(files).map(|source| Glance { layout: source.layout().clone(), samples: Some(source.samples()) })
        }
    }
}
