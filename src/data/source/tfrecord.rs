//! TFRecord: records of bytes, each behind its length and a checksum of that, and before a checksum of its own. A record here is a
//! `tf.train.Example`: features by name, each a list of bytes, floats or integers, with the shape beside it under `NAME/shape`.
//! [The format](https://www.tensorflow.org/tutorials/load_data/tfrecord); checksums are CRC-32C, masked.
//!
//! Where records begin is found when the file is opened, by their lengths; each is checked against its checksum when it is read.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use prost::Message;

use super::Source;
use super::file::At;
use crate::data::error::{DataError, Place};
use crate::data::sample::{Array, Layout, Part, Sample, elements};
use crate::meta::{DType, plain};

/// The length and its checksum.
const HEAD: u64 = 12;
/// The record's checksum.
const TAIL: u64 = 4;

fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[derive(Clone, PartialEq, Message)]
struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, FeatureMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct FeatureMessage {
    #[prost(oneof = "List", tags = "1, 2, 3")]
    list: Option<List>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum List {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Integers(Int64List),
}

#[derive(Clone, PartialEq, Message)]
struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct FloatList {
    #[prost(float, repeated, tag = "1")]
    value: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    value: Vec<i64>,
}

/// What an f64 feature's bytes are called, under `NAME/dtype`: the format itself has none.
const F64: &[u8] = b"f64";

/// A feature to be written.
#[derive(Debug)]
pub(in crate::data) struct Feature<'a> {
    pub(in crate::data) name: &'a str,
    pub(in crate::data) array: &'a Array,
    pub(in crate::data) dtype: DType,
}

/// Writes records.
#[derive(Debug)]
pub(in crate::data) struct Writer<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> Writer<W> {
    pub(in crate::data) fn new(out: W) -> Self {
        Self { out: BufWriter::new(out) }
    }

    /// One more example.
    pub(in crate::data) fn write(&mut self, features: &[Feature<'_>]) -> io::Result<()> {
        let mut map = BTreeMap::new();
        let mut insert = |name: String, list| map.insert(name, FeatureMessage { list: Some(list) });
        for Feature { name, array, dtype } in features {
            let values = array.values.iter();
            let list = match dtype {
                DType::I64 => List::Integers(Int64List { value: values.map(|v| *v as i64).collect() }),
                DType::F64 => {
                    insert(format!("{name}/dtype"), List::Bytes(BytesList { value: vec![F64.to_vec()] }));
                    List::Bytes(BytesList { value: vec![values.flat_map(|v| v.to_le_bytes()).collect()] })
                }
                _ => List::Floats(FloatList { value: values.map(|v| *v as f32).collect() }),
            };
            insert((*name).to_owned(), list);
            let shape = array.shape.iter().map(|&d| d.cast_signed()).collect();
            insert(format!("{name}/shape"), List::Integers(Int64List { value: shape }));
        }
        let record = Example { features: Some(Features { feature: map }) }.encode_to_vec();
        let length = (record.len() as u64).to_le_bytes();
        self.out.write_all(&length)?;
        self.out.write_all(&masked(&length).to_le_bytes())?;
        self.out.write_all(&record)?;
        self.out.write_all(&masked(&record).to_le_bytes())
    }

    /// What it writes to, everything written.
    pub(in crate::data) fn finish(self) -> io::Result<W> {
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// Samples in a TFRecord file.
#[derive(Debug)]
pub(super) struct TfRecord {
    file: At,
    input: String,
    target: String,
    /// Where each record's length stands, and where the last ends.
    starts: Vec<u64>,
    layout: Layout,
}

/// What the first record shows.
pub(super) fn inspect(path: &Path, input: &str, target: &str) -> Result<Layout, DataError> {
    let file = At::open(path)?;
    first(&file, input, target)
}

fn first(file: &At, input: &str, target: &str) -> Result<Layout, DataError> {
    if file.length == 0 {
        return Err(DataError::of_file(&file.path, "has no records"));
    }
    let bytes = record(file, 0, length(file, 0, Place::Record(1))?, Place::Record(1))?;
    let refuse = |what: String| DataError::new(&file.path, Place::Record(1), what);
    let features = features(&bytes[HEAD as usize..]).map_err(refuse)?;
    let (input, whole) = array(&features, input).map_err(refuse)?.ok_or_else(|| refuse(absent(input, &features)))?;
    let target = array(&features, target).map_err(refuse)?;
    let target = target.map(|(array, whole)| Part { shape: array.shape, whole });
    Ok(Layout { input: Part { shape: input.shape, whole }, target })
}

fn absent(name: &str, features: &BTreeMap<String, FeatureMessage>) -> String {
    let names: Vec<&str> = features.keys().map(String::as_str).collect();
    format!("has no feature `{}`; there are {}", plain(name), plain(&names.join(", ")))
}

/// The length of the record that begins at `start`, checked to lie within the file.
fn length(file: &At, start: u64, place: Place) -> Result<u64, DataError> {
    let refuse = |what: String| DataError::new(&file.path, place, what);
    if file.length - start < HEAD {
        return Err(refuse(format!("is torn: the file ends {} bytes into it", file.length - start)));
    }
    let mut head = [0; HEAD as usize];
    file.read(start, &mut head, place)?;
    let (length, checksum) = head.split_at(8);
    if masked(length).to_le_bytes() != checksum {
        return Err(refuse("the checksum of its length is wrong".to_owned()));
    }
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
    let left = file.length - start;
    if length.checked_add(HEAD + TAIL).is_none_or(|n| n > left) {
        return Err(refuse(format!("is torn: it has {length} bytes, and the file ends {left} bytes into it")));
    }
    Ok(length)
}

/// The record that begins at `start`, whose length was read.
fn record(file: &At, start: u64, length: u64, place: Place) -> Result<Vec<u8>, DataError> {
    let refuse = |what: &str| DataError::new(&file.path, place, what);
    let whole = length.checked_add(HEAD + TAIL).and_then(|n| usize::try_from(n).ok()).ok_or_else(|| refuse("is too large"))?;
    let mut bytes = vec![0; whole];
    file.read(start, &mut bytes, place)?;
    let checksum = bytes.split_off(whole - TAIL as usize);
    if masked(&bytes[..8]).to_le_bytes() != bytes[8..HEAD as usize] {
        return Err(refuse("the checksum of its length is wrong"));
    }
    if length.to_le_bytes() != bytes[..8] {
        return Err(refuse("its length is not what it was when the file was opened"));
    }
    if masked(&bytes[HEAD as usize..]).to_le_bytes()[..] != checksum {
        return Err(refuse("its checksum is wrong: the file is damaged here"));
    }
    Ok(bytes)
}

fn features(record: &[u8]) -> Result<BTreeMap<String, FeatureMessage>, String> {
    let example = Example::decode(record).map_err(|e| format!("is no tf.train.Example: {e}"))?;
    Ok(example.features.unwrap_or_default().feature)
}

/// A feature's numbers, and whether they are whole ones. Bytes are numbers from 0 to 255 each.
fn array(features: &BTreeMap<String, FeatureMessage>, name: &str) -> Result<Option<(Array, bool)>, String> {
    let list = |name: &str| features.get(name).and_then(|f| f.list.as_ref());
    let (values, whole): (Vec<f64>, bool) = match list(name) {
        None => return Ok(None),
        Some(List::Floats(list)) => (list.value.iter().map(|&v| v.into()).collect(), false),
        Some(List::Integers(list)) => (list.value.iter().map(|&v| v as f64).collect(), true),
        Some(List::Bytes(bytes)) => {
            let bytes = bytes.value.concat();
            match list(&format!("{name}/dtype")) {
                Some(List::Bytes(dtype)) if dtype.value == [F64] => {
                    (bytes.as_chunks::<8>().0.iter().map(|&b| f64::from_le_bytes(b)).collect(), false)
                }
                _ => (bytes.iter().map(|&b| b.into()).collect(), true),
            }
        }
    };
    let shape = match list(&format!("{name}/shape")) {
        Some(List::Integers(shape)) => shape
            .value
            .iter()
            .map(|&d| u64::try_from(d))
            .collect::<Result<_, _>>()
            .map_err(|_| format!("`{name}/shape` has a negative size"))?,
        // A single number without a shape is a scalar: a label, mostly.
        _ if values.len() == 1 => vec![],
        _ => vec![values.len() as u64],
    };
    if elements(&shape) != Some(values.len()) {
        return Err(format!("`{name}` has {} numbers, which do not fill the shape {shape:?}", values.len()));
    }
    Ok(Some((Array { shape, values }, whole)))
}

impl TfRecord {
    pub(super) fn open(path: &Path, input: &str, target: &str) -> Result<Self, DataError> {
        let file = At::open(path)?;
        let layout = first(&file, input, target)?;
        let mut starts = Vec::new();
        let mut at = 0;
        while at < file.length {
            starts.push(at);
            at += HEAD + length(&file, at, Place::Record(starts.len() as u64))? + TAIL;
        }
        starts.push(at);
        Ok(Self { file, input: input.to_owned(), target: target.to_owned(), starts, layout })
    }
}

impl Source for TfRecord {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn samples(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    fn read(&self, number: u64) -> Result<Sample, DataError> {
        let place = Place::Record(number + 1);
        let at = usize::try_from(number).expect("records are counted in memory");
        let (start, end) = (self.starts[at], self.starts[at + 1]);
        let bytes = record(&self.file, start, end - start - HEAD - TAIL, place)?;
        let refuse = |what: String| DataError::new(&self.file.path, place, what);
        let features = features(&bytes[HEAD as usize..]).map_err(refuse)?;
        let (input, _) = array(&features, &self.input).map_err(refuse)?.ok_or_else(|| refuse(absent(&self.input, &features)))?;
        let target = array(&features, &self.target).map_err(refuse)?.map(|(array, _)| array);
        Ok(Sample { input, target })
    }

    fn place(&self, number: u64) -> (&Path, Place) {
        (&self.file.path, Place::Record(number + 1))
    }
}
