//! The CSVs in which allocators' doings are recorded: statistics at probes, and events. What PyTorch did on a GPU is in files of
//! these columns, so a replay can be held against a recording byte for byte, or begin from its addresses.

use std::fmt::Write as _;
use std::io::Read;

use super::event::{Action, Event};
use super::recorded::RecordedSegment;
use super::replay::Probe;
use super::stats::Stats;
use crate::meta::plain;

/// Statistics at every probe of a trace, as CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsTable {
    csv: String,
}

impl Default for StatsTable {
    fn default() -> Self {
        let mut csv = String::from("at");
        for (array, stats) in Stats::default().arrays() {
            for (pool, _) in stats.named() {
                for figure in ["current", "peak", "allocated", "freed"] {
                    let _ = write!(csv, ",{array}.{pool}.{figure}");
                }
            }
        }
        csv.push_str(",num_alloc_retries,num_ooms,num_device_alloc,num_device_free\n");
        Self { csv }
    }
}

impl StatsTable {
    /// Adds a row. `at` is the operation, counted from 0, or −1 for the end.
    pub fn push(&mut self, at: Probe, stats: &Stats) {
        let csv = &mut self.csv;
        let _ = match at {
            Probe::At(op) => write!(csv, "{op}"),
            Probe::End => write!(csv, "-1"),
        };
        for (_, array) in stats.arrays() {
            for (_, stat) in array.named() {
                let _ = write!(csv, ",{},{},{},{}", stat.current, stat.peak, stat.allocated, stat.freed());
            }
        }
        let _ = writeln!(csv, ",{},{},{},{}", stats.num_alloc_retries, stats.num_ooms, stats.num_device_alloc, stats.num_device_free);
    }

    /// The whole table.
    #[must_use]
    pub fn as_csv(&self) -> &str {
        &self.csv
    }
}

/// Events as CSV. Addresses are relative to the lowest, so that two runs can be compared.
#[must_use]
pub fn events_csv(events: &[Event]) -> String {
    let lowest = events.iter().filter(|e| e.action != Action::Oom).map(|e| e.address).min().unwrap_or(0);
    let mut csv = String::from("action,bytes,address\n");
    for event in events {
        let _ = match event.action {
            Action::Oom => writeln!(csv, "oom,{},", event.bytes),
            action => writeln!(csv, "{},{},{:#x}", action.name(), event.bytes, event.address - lowest),
        };
    }
    csv
}

/// What is wrong with a recording of events.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum RecordingError {
    #[error("there is no column `{column}`")]
    Column { column: &'static str },
    #[error("line {line}: `{}` is no {what}", plain(found))]
    Field { line: u64, what: &'static str, found: String },
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

/// The segments of a recording of events, in order. Other columns than `action`, `bytes` and `address` may be there.
///
/// # Errors
/// The first mistake in it.
pub fn recorded_segments(events: impl Read) -> Result<Vec<RecordedSegment>, RecordingError> {
    let mut reader = csv::Reader::from_reader(events);
    let headers = reader.headers()?;
    let column = |column| headers.iter().position(|h| h == column).ok_or(RecordingError::Column { column });
    let (action, bytes, address) = (column("action")?, column("bytes")?, column("address")?);
    let mut segments = Vec::new();
    for record in reader.records() {
        let record = record?;
        let mapped = match &record[action] {
            "segment_alloc" => false,
            "segment_map" => true,
            _ => continue,
        };
        let mistake = |what, field: usize| RecordingError::Field {
            line: record.position().map_or(0, csv::Position::line),
            what,
            found: record[field].to_owned(),
        };
        let hexadecimal = |text: &str| text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        segments.push(RecordedSegment {
            address: hexadecimal(&record[address]).ok_or_else(|| mistake("address", address))?,
            bytes: record[bytes].parse().map_err(|_| mistake("number of bytes", bytes))?,
            mapped,
        });
    }
    Ok(segments)
}

/// The first segment, counted from 1, that was asked for otherwise than recorded. There a replay stops being the recording's.
#[must_use]
pub fn first_other_segment(events: &[Event], recording: &[RecordedSegment]) -> Option<OtherSegment> {
    let mut asked = events.iter().filter_map(|e| match e.action {
        Action::SegmentAlloc => Some((false, e.bytes)),
        Action::SegmentMap => Some((true, e.bytes)),
        _ => None,
    });
    let mut recorded = recording.iter().map(|s| (s.mapped, s.bytes));
    for number in 1.. {
        match (asked.next(), recorded.next()) {
            (None, None) => break,
            (asked, recorded) if asked == recorded => {}
            (asked, recorded) => return Some(OtherSegment { number, asked: describe(asked), recorded: describe(recorded) }),
        }
    }
    None
}

/// A segment that a recording has otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("segment {number} was recorded as {recorded}, but the replay asked for {asked}")]
pub struct OtherSegment {
    number: usize,
    asked: String,
    recorded: String,
}

fn describe(segment: Option<(bool, u64)>) -> String {
    match segment {
        Some((mapped, bytes)) => format!("{bytes} bytes {}", if mapped { "mapped" } else { "allocated" }),
        None => "none".to_owned(),
    }
}
