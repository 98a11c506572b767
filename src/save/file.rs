//! Saves as [safetensors](https://github.com/huggingface/safetensors) files: the length of a header, the header as JSON with each
//! tensor's type, shape and place, then the tensors' bytes, without holes. A CRC-32C of all that in the metadata tells a damaged save from
//! one that is merely another's.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::snapshot::{Snapshot, Stored};
use crate::meta::{DType, cut, plain};
use crate::whole;

/// The header's entry that is no tensor.
const METADATA: &str = "__metadata__";
/// The metadata's key for the numbers beside the tensors.
const ABOUT: &str = "runner";
/// The metadata's key for the checksum of the header without it, and of the tensors' bytes after that.
const CHECKSUM: &str = "crc32c";

/// A save that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It could not be written, or not be put in its place.
    #[error("cannot write the save {}: {what}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        what: String,
    },
    /// It is not there, or not a save.
    #[error("cannot go on from {}: {what}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

const TYPES: [(DType, &str); 7] = [
    (DType::F64, "F64"),
    (DType::F32, "F32"),
    (DType::F16, "F16"),
    (DType::BF16, "BF16"),
    (DType::I64, "I64"),
    (DType::Bool, "BOOL"),
    (DType::U8, "U8"),
];

/// A tensor's entry in the header.
#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    /// First byte and one past the last, counted from the header's end.
    data_offsets: [u64; 2],
}

/// Writes a save whole or not at all: beside its place, brought to the disk, then renamed.
///
/// # Errors
/// [`SaveError::Write`], with what the system says.
pub fn write(snapshot: &Snapshot, path: &Path) -> Result<(), SaveError> {
    let put = || -> io::Result<()> {
        let mut file = BufWriter::new(whole::begin(path)?);
        let header = header(snapshot);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for tensor in &snapshot.tensors {
            file.write_all(&tensor.bytes)?;
        }
        whole::put(file.into_inner().map_err(io::IntoInnerError::into_error)?, path)
    };
    put().map_err(|e| SaveError::Write { path: path.to_path_buf(), what: e.to_string() })
}

/// The header, filled up with spaces to whole words.
fn header(snapshot: &Snapshot) -> Vec<u8> {
    let about = serde_json::to_string(&snapshot.about).expect("numbers and names are JSON");
    let mut header = Map::new();
    header.insert(METADATA.to_owned(), json!({ ABOUT: about }));
    let mut start = 0;
    for tensor in &snapshot.tensors {
        let end = start + tensor.bytes.len() as u64;
        let dtype = TYPES.iter().find(|(ours, _)| *ours == tensor.dtype).expect("every type has a name").1.to_owned();
        let entry = Entry { dtype, shape: tensor.shape.clone(), data_offsets: [start, end] };
        header.insert(tensor.name.clone(), serde_json::to_value(entry).expect("numbers and names are JSON"));
        start = end;
    }
    let checksum = snapshot.tensors.iter().fold(checksum(&header), |sum, tensor| crc32c::crc32c_append(sum, &tensor.bytes));
    header[METADATA][CHECKSUM] = json!(format!("{checksum:08x}"));
    let mut bytes = serde_json::to_vec(&header).expect("a map of names is JSON");
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    bytes
}

/// The checksum of a header that holds none yet.
fn checksum(header: &Map<String, Value>) -> u32 {
    crc32c::crc32c(&serde_json::to_vec(header).expect("a map of names is JSON"))
}

/// Reads a save.
///
/// # Errors
/// It is not there, damaged, or no save of this program.
pub fn read(path: &Path) -> Result<Snapshot, SaveError> {
    let refuse = |what: String| SaveError::Read { path: path.to_path_buf(), what };
    let bytes = whole::read(path, u64::MAX).map_err(|e| refuse(e.to_string()))?;
    parse(&bytes).map_err(refuse)
}

fn parse(bytes: &[u8]) -> Result<Snapshot, String> {
    let damaged = "it is no whole safetensors file";
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or(damaged)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| damaged)?;
    let (header, data) = rest.split_at_checked(length).ok_or(damaged)?;
    let mut header: Map<String, Value> = serde_json::from_slice(header).map_err(|e| format!("{damaged}: {e}"))?;
    let stored = header.get_mut(METADATA).and_then(Value::as_object_mut).and_then(|m| m.remove(CHECKSUM));
    let computed = format!("{:08x}", crc32c::crc32c_append(checksum(&header), data));
    let metadata = header.remove(METADATA);
    let about = metadata.as_ref().and_then(|m| m.get(ABOUT)).and_then(Value::as_str).ok_or("it holds no training run's state")?;
    let stored = stored.as_ref().and_then(Value::as_str).ok_or("it has no checksum")?;
    if stored != computed {
        return Err("it is damaged: its checksum is wrong".to_owned());
    }
    let about = serde_json::from_str(about).map_err(|e| format!("its metadata is damaged: {e}"))?;
    let mut tensors = Vec::with_capacity(header.len());
    for (name, entry) in header {
        let Entry { dtype, shape, data_offsets } =
            serde_json::from_value(entry).map_err(|e| format!("its `{}` is damaged: {}", plain(&name), cut(&e.to_string(), 200)))?;
        let known = TYPES.iter().find(|(_, theirs)| *theirs == dtype).map(|(ours, _)| *ours);
        let dtype = known.ok_or_else(|| format!("its `{}` has the type {}, which is not known", plain(&name), plain(&dtype)))?;
        let [start, end] = data_offsets.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let stored = data.get(start..end).ok_or(damaged)?;
        let needed = shape.iter().try_fold(dtype.bytes(), |n, &d| n.checked_mul(d));
        if needed != Some(stored.len() as u64) {
            return Err(format!(
                "its `{}` has {} bytes, which do not fill {} of {dtype}",
                plain(&name),
                stored.len(),
                plain(&format!("{shape:?}"))
            ));
        }
        tensors.push(Stored { name, dtype, shape, bytes: stored.to_vec() });
    }
    Ok(Snapshot { about, tensors })
}
