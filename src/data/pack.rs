//! Samples prepared once for all, as TFRecord. The file appears whole or not at all.

use std::io;
use std::path::Path;

use super::error::{DataError, PackError};
use super::random::{Purpose, Random};
use super::sample::{Array, Sample};
use super::settings::Feed;
use super::source::{Feature, Source, Writer, open};
use crate::meta::DType;
use crate::whole::{self, WriteError};

/// Writes every sample of the source, prepared, in the order of the file; says how many there were. What the feed's slots take is what is
/// written: whole numbers for tokens and classes, else f32, or f64 where the model computes in it.
///
/// # Errors
/// A sample cannot be read or prepared, or the file not be written.
///
/// # Panics
/// The feed has random steps: they cannot be done once for all.
pub fn pack(feed: &Feed, to: &Path) -> Result<u64, PackError> {
    assert!(!feed.settings.prepare.iter().any(super::Step::is_random), "random steps are not done once for all");
    let refuse = |source: io::Error| WriteError::File { path: to.to_path_buf(), source };
    let source = open(&feed.settings.files)?;
    let mut writer = Writer::new(whole::begin(to).map_err(refuse)?);
    for number in 0..source.samples() {
        let sample = prepared(&*source, feed, number)?;
        let stored = |dtype| if matches!(dtype, DType::F64 | DType::I64) { dtype } else { DType::F32 };
        let mut features = vec![Feature { name: "input", array: &sample.input, dtype: stored(feed.input.dtype) }];
        let target: Option<(&Array, DType)> = sample.target.as_ref().zip(feed.target.as_ref().map(|t| t.dtype));
        features.extend(target.map(|(array, dtype)| Feature { name: "target", array, dtype: stored(dtype) }));
        writer.write(&features).map_err(refuse)?;
    }
    let file = writer.finish().map_err(refuse)?;
    whole::put(file, to).map_err(refuse)?;
    Ok(source.samples())
}

fn prepared(source: &dyn Source, feed: &Feed, number: u64) -> Result<Sample, DataError> {
    let mut sample = source.read(number)?;
    let mut random = Random::new(0, Purpose::Packing, 0);
    let refuse = |what: String| {
        let (file, place) = source.place(number);
        DataError::new(file, place, what)
    };
    for step in &feed.settings.prepare {
        step.apply(&mut sample, &mut random).map_err(refuse)?;
    }
    feed.input.check(&sample.input).map_err(refuse)?;
    if let (Some(slot), Some(array)) = (&feed.target, &sample.target) {
        slot.check(array).map_err(refuse)?;
    }
    Ok(sample)
}
