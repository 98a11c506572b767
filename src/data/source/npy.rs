//! NumPy's `.npy` header: magic, version, length, and a Python dictionary with the type, the order and the shape.
//! [Its specification](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).

use super::array::Header;
use super::element::{Element, Kind};
use super::file::At;
use crate::data::error::{DataError, Place};
use crate::meta::plain;

/// A longer header is none.
const LONGEST: u64 = 1 << 20;

/// Reads the header.
pub(super) fn header(file: &At) -> Result<Header, DataError> {
    let refuse = |what: String| DataError::of_file(&file.path, what);
    let mut start = [0; 12];
    let known = file.length.min(12);
    file.read(0, &mut start[..usize::try_from(known).expect("at most 12")], Place::File)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(refuse("is no .npy file: it does not begin as one".to_owned()));
    }
    let (offset, length) = match start[6] {
        1 => (10, u64::from(u16::from_le_bytes([start[8], start[9]]))),
        2 | 3 => (12, u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]]))),
        other => return Err(refuse(format!("is a .npy file of version {other}, which is not known"))),
    };
    if length > LONGEST {
        return Err(refuse(format!("has a header of {length} bytes, which is no .npy file's")));
    }
    let mut text = vec![0; usize::try_from(length).expect("short")];
    file.read(offset, &mut text, Place::File)?;
    let text = String::from_utf8_lossy(&text);
    let (element, shape) = dictionary(&text).map_err(refuse)?;
    Ok(Header { element, shape, offset: offset + length })
}

fn dictionary(text: &str) -> Result<(Element, Vec<u64>), String> {
    let value = |key: &str| {
        let after = text.split_once(&format!("'{key}'")).and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
        after.map(str::trim_start).ok_or_else(|| format!("its header has no `{key}`"))
    };
    let descr = value("descr")?;
    let descr = descr.strip_prefix('\'').and_then(|d| d.split_once('\'')).map(|(d, _)| d);
    let descr = descr.ok_or("holds records of several fields, and not numbers")?;
    if value("fortran_order")?.starts_with("True") {
        return Err("is stored column by column (fortran_order); save it with numpy.ascontiguousarray".to_owned());
    }
    let shape = value("shape")?.strip_prefix('(').and_then(|s| s.split_once(')')).map(|(s, _)| s).ok_or("its header has no shape")?;
    let sizes = shape.split(',').map(str::trim).filter(|s| !s.is_empty());
    let sizes: Result<Vec<u64>, _> = sizes.map(str::parse).collect();
    Ok((element(descr)?, sizes.map_err(|_| format!("its header has the shape ({})", plain(shape)))?))
}

fn element(descr: &str) -> Result<Element, String> {
    let (order, name) = descr.split_at_checked(1).unwrap_or_default();
    let kind = match name {
        "u1" | "b1" => Kind::U8,
        "i1" => Kind::I8,
        "u2" => Kind::U16,
        "i2" => Kind::I16,
        "u4" => Kind::U32,
        "i4" => Kind::I32,
        "u8" => Kind::U64,
        "i8" => Kind::I64,
        "f2" => Kind::F16,
        "f4" => Kind::F32,
        "f8" => Kind::F64,
        _ => return Err(format!("holds elements of type `{}`; integers and f2, f4, f8 are read", plain(descr))),
    };
    Ok(Element { kind, big_endian: order == ">" })
}
