//! CSV: the first record names the columns, every other one is a sample of numbers. Where records begin is found when the file is
//! opened, so that any of them can be read by its number; a record of another length is found then too.

use std::io::{Seek, SeekFrom};
use std::path::Path;

use ::csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};

use super::file::At;
use super::{Glance, Source};
use crate::data::error::{DataError, Place};
use crate::data::sample::{Array, Layout, Part, Sample};
use crate::meta::{cut, plain, short};

/// A record: its first byte, and its line from 1.
#[derive(Debug, Clone, Copy)]
struct Start {
    byte: u64,
    line: u64,
}

/// Samples in a CSV file.
#[derive(Debug)]
pub(super) struct Csv {
    file: At,
    /// Where each record begins, and after the last the end of the file.
    starts: Vec<Start>,
    columns: Columns,
    layout: Layout,
}

/// Which columns are what, by number.
#[derive(Debug)]
struct Columns {
    names: Vec<String>,
    input: Vec<usize>,
    target: Vec<usize>,
    scalar: bool,
}

impl Columns {
    fn new(path: &Path, header: &StringRecord, target: &[String], scalar: bool) -> Result<Self, DataError> {
        if header.is_empty() {
            return Err(DataError::of_file(path, "is empty; its first line would name the columns"));
        }
        let names: Vec<String> = header.iter().map(|n| n.trim().to_owned()).collect();
        let find = |name: &String| {
            let absent = || {
                DataError::new(
                    path,
                    Place::Line(1),
                    format!("there is no column `{}`; there are {}", plain(name), cut(&names.join(", "), 400)),
                )
            };
            names.iter().position(|n| n == name).ok_or_else(absent)
        };
        let target = target.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let input: Vec<usize> = (0..names.len()).filter(|c| !target.contains(c)).collect();
        if input.is_empty() {
            return Err(DataError::new(path, Place::Line(1), "there is no column but the target's"));
        }
        Ok(Self { names, input, target, scalar })
    }

    /// One record's numbers.
    fn sample(&self, path: &Path, line: u64, record: &StringRecord) -> Result<Sample, DataError> {
        let number = |&column: &usize| -> Result<f64, DataError> {
            let text = record.get(column).unwrap_or_default().trim();
            let refuse = || {
                DataError::new(
                    path,
                    Place::Line(line),
                    format!("column `{}` is {:?}, which is no number", plain(&self.names[column]), short(text)),
                )
            };
            text.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(refuse)
        };
        let array = |columns: &[usize], scalar: bool| -> Result<Array, DataError> {
            let values = columns.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            Ok(Array { shape: if scalar { vec![] } else { vec![values.len() as u64] }, values })
        };
        let target = if self.target.is_empty() { None } else { Some(array(&self.target, self.scalar)?) };
        Ok(Sample { input: array(&self.input, false)?, target })
    }

    /// What the first record shows. Whether a column is of whole numbers is seen only as records come.
    fn layout(&self) -> Layout {
        let part = |columns: &[usize], scalar| Part { shape: if scalar { vec![] } else { vec![columns.len() as u64] }, whole: true };
        Layout { input: part(&self.input, false), target: (!self.target.is_empty()).then(|| part(&self.target, self.scalar)) }
    }
}

fn reader(file: &At) -> Result<Reader<&std::fs::File>, DataError> {
    let mut handle = file.handle();
    handle.seek(SeekFrom::Start(0)).map_err(|e| DataError::of_file(&file.path, format!("cannot be read: {e}")))?;
    Ok(Reader::from_reader(handle))
}

fn refuse(path: &Path, error: &::csv::Error) -> DataError {
    let place = error.position().map_or(Place::File, |p| Place::Line(p.line()));
    match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            DataError::new(path, place, format!("has {len} fields, and the first line {expected_len}"))
        }
        ErrorKind::Utf8 { .. } => DataError::new(path, place, "is not text in UTF-8"),
        _ => DataError::new(path, place, format!("cannot be read: {error}")),
    }
}

/// The columns, from the first line, and whether there is another one. What is wrong with that is told when all are read.
pub(super) fn inspect(path: &Path, target: &[String], scalar: bool) -> Result<Glance, DataError> {
    let file = At::open(path)?;
    let mut reader = reader(&file)?;
    let header = reader.headers().map_err(|e| refuse(path, &e))?;
    let layout = Columns::new(path, header, target, scalar)?.layout();
    let none = matches!(reader.read_record(&mut StringRecord::new()), Ok(false));
    Ok(Glance { layout, samples: none.then_some(0) })
}

impl Csv {
    pub(super) fn open(path: &Path, target: &[String], scalar: bool) -> Result<Self, DataError> {
        let file = At::open(path)?;
        let mut starts = Vec::new();
        let columns = {
            let mut reader = reader(&file)?;
            let columns = Columns::new(path, reader.headers().map_err(|e| refuse(path, &e))?, target, scalar)?;
            let mut record = StringRecord::new();
            while reader.read_record(&mut record).map_err(|e| refuse(path, &e))? {
                starts.extend(record.position().map(|p| Start { byte: p.byte(), line: p.line() }));
            }
            starts.push(Start { byte: reader.position().byte(), line: reader.position().line() });
            columns
        };
        let layout = columns.layout();
        Ok(Self { file, starts, columns, layout })
    }

    fn start(&self, number: u64) -> Start {
        self.starts[usize::try_from(number).expect("records are counted in memory")]
    }
}

impl Source for Csv {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn samples(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    fn read(&self, number: u64) -> Result<Sample, DataError> {
        let (start, end) = (self.start(number), self.start(number + 1));
        let place = Place::Line(start.line);
        let mut bytes = vec![0; usize::try_from(end.byte - start.byte).expect("a record fits memory")];
        self.file.read(start.byte, &mut bytes, place)?;
        let mut record = StringRecord::new();
        let mut reader = ReaderBuilder::new().has_headers(false).from_reader(&bytes[..]);
        reader.read_record(&mut record).map_err(|e| DataError::new(&self.file.path, place, format!("cannot be read: {e}")))?;
        if record.len() != self.columns.names.len() {
            let what = format!("has {} fields, and the first line {}", record.len(), self.columns.names.len());
            return Err(DataError::new(&self.file.path, place, what));
        }
        self.columns.sample(&self.file.path, start.line, &record)
    }

    fn place(&self, number: u64) -> (&Path, Place) {
        (&self.file.path, Place::Line(self.start(number).line))
    }
}
