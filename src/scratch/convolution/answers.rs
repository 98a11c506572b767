//! What cuDNN answered: convolutions with the workspaces of the plans that PyTorch takes, as a CSV. Not what is made of it.
//!
//! Columns are known by their names. `weight` and those of [`Settings`] may be absent or empty; all others are there. Lines before the header that begin with
//! `#` say where the answers come from.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use super::tree::MOST_WEIGHT;
use crate::meta::{DType, plain};
use crate::scratch::{Convolution, Direction};
use crate::whole;

/// One question, and what came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    /// The question.
    pub call: Convolution,
    /// The workspace, in bytes.
    pub bytes: u64,
    /// How the plan's engine is set, which tells formulas apart that give the same size.
    pub settings: Settings,
    /// How much it counts when trees grow: as so many answers, from 1 to [`HEAVIEST`].
    pub weight: u32,
}

/// The most that an answer may count.
pub const HEAVIEST: u32 = 100;

/// An engine's settings (cuDNN's knobs), as far as a workspace depends on them. None where the engine has no such knob, or nobody asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings {
    /// `CUDNN_KNOB_TYPE_TILE_SIZE`: a number for each tile.
    pub tile_size: Option<i32>,
    /// `CUDNN_KNOB_TYPE_TILE_CGA_M`: tiles of a cluster, down.
    pub tile_cga_m: Option<i32>,
    /// `CUDNN_KNOB_TYPE_TILE_CGA_N`: across.
    pub tile_cga_n: Option<i32>,
    /// `CUDNN_KNOB_TYPE_WORKSPACE`: whether the engine does without a workspace for parts.
    pub workspace: Option<i32>,
    /// `CUDNN_KNOB_TYPE_SPLIT_K`: parts of the sum.
    pub split_k: Option<i32>,
    /// `CUDNN_KNOB_TYPE_SPLIT_K_BUF`: of these, the ones with a buffer.
    pub split_k_buf: Option<i32>,
}

/// A file of answers that cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum AnswersError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {message}", path.display())]
    Parse { path: PathBuf, line: u64, message: String },
}

const SIZES: [&str; 11] =
    ["batch", "in_channels", "height", "width", "out_channels", "kernel_h", "kernel_w", "stride", "padding", "dilation", "groups"];
const SETTINGS: [&str; 6] = ["tile_size", "tile_cga_m", "tile_cga_n", "workspace", "split_k", "split_k_buf"];
const DIRECTIONS: [(&str, Direction); 3] =
    [("forward", Direction::Forward), ("grad_input", Direction::GradInput), ("grad_weight", Direction::GradWeight)];

/// Larger sizes are no convolution's; products of three fit in 63 bits.
const LARGEST: u64 = 1 << 20;

/// No answers are as many.
const MOST_BYTES: u64 = 4 << 30;

/// Reads a file: the remarks before its header, and its answers in order.
///
/// # Errors
/// [`AnswersError`] where it cannot be read, or a line is no answer.
pub fn read_answers(path: &Path) -> Result<(Vec<String>, Vec<Answer>), AnswersError> {
    let read = |source| AnswersError::Read { path: path.to_path_buf(), source };
    let bytes = whole::read(path, MOST_BYTES).map_err(read)?;
    let mut file = &bytes[..];
    let (mut remarks, mut skipped) = (Vec::new(), 0);
    while file.fill_buf().map_err(read)?.first() == Some(&b'#') {
        let mut line = Vec::new();
        file.read_until(b'\n', &mut line).map_err(read)?;
        remarks.push(String::from_utf8_lossy(&line[1..]).trim().to_owned());
        skipped += 1;
    }
    let wrong = |line: u64, message: String| AnswersError::Parse { path: path.to_path_buf(), line: line + skipped, message };
    let mut reader = csv::Reader::from_reader(file);
    let torn = |e: csv::Error| wrong(e.position().map_or(1, csv::Position::line), e.to_string());
    let header = reader.headers().map_err(torn)?.clone();
    let column = |name: &str| header.iter().position(|h| h == name);
    let needed = |name: &str| column(name).ok_or_else(|| wrong(1, format!("no column `{name}`")));
    let (direction, dtype, bytes) = (needed("direction")?, needed("dtype")?, needed("bytes")?);
    let mut sizes = [0; SIZES.len()];
    for (place, name) in sizes.iter_mut().zip(SIZES) {
        *place = needed(name)?;
    }
    let (settings, weight) = (SETTINGS.map(column), column("weight"));
    let mut answers = Vec::new();
    let mut weighed = 0u64;
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(torn)? {
        let line = record.position().map_or(1, csv::Position::line);
        let field = |at: usize| record.get(at).unwrap_or_default();
        let number = |at: usize| field(at).parse::<u64>().map_err(|_| wrong(line, format!("`{}` is no whole number", plain(field(at)))));
        let found = DIRECTIONS.iter().find(|(name, _)| *name == field(direction));
        let &(_, direction) = found.ok_or_else(|| wrong(line, format!("`{}` is no direction", plain(field(direction)))))?;
        let dtypes = [DType::F64, DType::F32, DType::F16, DType::BF16];
        let dtype = dtypes
            .into_iter()
            .find(|d| d.name() == field(dtype))
            .ok_or_else(|| wrong(line, format!("`{}` is no dtype", plain(field(dtype)))))?;
        let mut of_sizes = [0; SIZES.len()];
        for (size, at) in of_sizes.iter_mut().zip(sizes) {
            *size = number(at)?;
        }
        let call = call(direction, dtype, of_sizes).map_err(|message| wrong(line, message))?;
        let mut knobs = [None; SETTINGS.len()];
        for (knob, at) in knobs.iter_mut().zip(settings) {
            let Some(at) = at.filter(|&at| !field(at).is_empty()) else { continue };
            *knob = Some(field(at).parse().map_err(|_| wrong(line, format!("`{}` is no whole number", plain(field(at)))))?);
        }
        let [tile_size, tile_cga_m, tile_cga_n, workspace, split_k, split_k_buf] = knobs;
        let settings = Settings { tile_size, tile_cga_m, tile_cga_n, workspace, split_k, split_k_buf };
        let weight = match weight.map(field) {
            None | Some("") => 1,
            Some(text) => {
                let weight = text.parse().ok().filter(|weight| (1..=HEAVIEST).contains(weight));
                weight.ok_or_else(|| wrong(line, format!("`{}` is no weight; weights are from 1 to {HEAVIEST}", plain(text))))?
            }
        };
        weighed = weighed.saturating_add(weight.into());
        if weighed >= MOST_WEIGHT {
            return Err(wrong(
                line,
                format!("up to here the answers weigh {weighed}, and together they may weigh less than {}", MOST_WEIGHT),
            ));
        }
        answers.push(Answer { call, bytes: number(bytes)?, settings, weight });
    }
    Ok((remarks, answers))
}

/// A convolution of these sizes, in the order of the columns; or why there is none.
pub(super) fn call(direction: Direction, dtype: DType, sizes: [u64; 11]) -> Result<Convolution, String> {
    let [n, c, h, w, k, kh, kw, stride, padding, dilation, groups] = sizes;
    for (name, size) in SIZES.into_iter().zip(sizes) {
        if size > LARGEST || (size == 0 && name != "padding") {
            return Err(format!("{name} is {size}, and sizes are from {} to {LARGEST}", u64::from(name != "padding")));
        }
    }
    if c % groups != 0 || k % groups != 0 {
        return Err(format!("{c} and {k} channels do not part into {groups} groups"));
    }
    for (side, kernel) in [(h, kh), (w, kw)] {
        let reach = dilation * (kernel - 1) + 1;
        if side + 2 * padding < reach {
            return Err(format!("a window of {reach} does not fit in {side} with a padding of {padding}"));
        }
    }
    let (input, weight) = ([n, c, h, w], [k, c / groups, kh, kw]);
    Ok(Convolution { direction, dtype, input, weight, stride: [stride; 2], padding: [padding; 2], dilation: [dilation; 2], groups })
}

/// The text of a file that [`read_answers`] reads.
#[must_use]
pub fn write_answers(remarks: &[String], answers: &[Answer]) -> Vec<u8> {
    let mut text: Vec<u8> = remarks.iter().flat_map(|remark| format!("# {remark}\n").into_bytes()).collect();
    let mut line = |fields: Vec<String>| {
        text.extend_from_slice(fields.join(",").as_bytes());
        text.push(b'\n');
    };
    line([&["direction", "dtype"][..], &SIZES, &["bytes"], &SETTINGS, &["weight"]].concat().iter().map(ToString::to_string).collect());
    for Answer { call, bytes, settings: s, weight } in answers {
        let direction = DIRECTIONS.iter().find(|(_, d)| *d == call.direction).map_or("", |(name, _)| *name);
        let ([n, c, h, w], [k, _, kh, kw]) = (call.input, call.weight);
        let sizes = [n, c, h, w, k, kh, kw, call.stride[0], call.padding[0], call.dilation[0], call.groups, *bytes];
        let settings = [s.tile_size, s.tile_cga_m, s.tile_cga_n, s.workspace, s.split_k, s.split_k_buf];
        let mut fields = vec![direction.to_owned(), call.dtype.name().to_owned()];
        fields.extend(sizes.iter().map(ToString::to_string));
        fields.extend(settings.map(|knob| knob.map_or_else(String::new, |value| value.to_string())));
        fields.push(weight.to_string());
        line(fields);
    }
    text
}
