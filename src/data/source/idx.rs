//! IDX, the format of the MNIST files: two zeros, a type, the number of dimensions, their sizes, then numbers, all big-endian.

use super::array::Header;
use super::element::{Element, Kind};
use super::file::At;
use crate::data::error::{DataError, Place};

/// Reads the header.
pub(super) fn header(file: &At) -> Result<Header, DataError> {
    let refuse = |what: &str| DataError::of_file(&file.path, what);
    let mut start = [0; 4];
    file.read(0, &mut start, Place::File)?;
    let [0, 0, kind, rank] = start else {
        let gzip = start[..2] == [0x1f, 0x8b];
        return Err(refuse(if gzip { "is compressed; unpack it with gunzip" } else { "is no IDX file: it does not begin with two zeros" }));
    };
    let kind = match kind {
        0x08 => Kind::U8,
        0x09 => Kind::I8,
        0x0b => Kind::I16,
        0x0c => Kind::I32,
        0x0d => Kind::F32,
        0x0e => Kind::F64,
        _ => return Err(refuse("is no IDX file: its type of numbers is none of the format's")),
    };
    let mut sizes = vec![0; usize::from(rank) * 4];
    file.read(4, &mut sizes, Place::File)?;
    let shape = sizes.as_chunks::<4>().0.iter().map(|&b| u64::from(u32::from_be_bytes(b))).collect();
    Ok(Header { element: Element { kind, big_endian: true }, shape, offset: 4 + sizes.len() as u64 })
}
