//! `NAME.run.toml`: what stands behind a results file. It holds all that may differ between two runs that give the same results:
//! the machine, the version, the device, the time.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::journal::Setting;
use crate::record::DeviceMemory;
use toml::value::{Date, Datetime, Offset, Time};

/// The whole file.
#[derive(Debug, Clone, Serialize)]
pub struct RunFile {
    /// The experiment's name.
    pub name: String,
    /// With what it ran.
    #[serde(flatten)]
    pub setting: Setting,
    /// The command line's `--set`, as given.
    pub set: Vec<String>,
    /// Its `--unset`; absent where there was none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// When it began, UTC.
    pub started: Datetime,
    /// When it ended, UTC.
    pub ended: Datetime,
    /// Where it ran.
    pub machine: Machine,
    /// What the GPU's libraries asked for, in bytes, by what they were to do; absent without a GPU. `--scratch` reads it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scratch: BTreeMap<String, u64>,
    /// Its cases.
    pub case: Vec<Case>,
}

/// What a case was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    /// The sweep point, as in the results; absent without a sweep.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub key: String,
    /// What the GPU held at its end; absent without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device_memory: Option<DeviceMemory>,
    /// Whether it ended before its last step for another reason than memory; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub failed: bool,
    /// The case as an experiment of its own, all defaults and `--set` written out.
    pub experiment: toml::Table,
}

/// The machine a run took place on.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Operating system and architecture, e.g. `linux x86_64`.
    pub system: String,
    /// The processor's name, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Threads that can run at once.
    pub threads: usize,
    /// Memory in bytes, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl RunFile {
    /// The file's text.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("tables stand behind plain values, and every value is one TOML has")
    }
}

/// What a run file tells of a run that is over, as far as it says what ran.
#[derive(Debug, Clone)]
pub struct Past {
    /// With what.
    pub setting: Setting,
    /// What the GPU's libraries asked for.
    pub scratch: BTreeMap<String, u64>,
    /// Its cases.
    pub cases: Vec<Case>,
}

impl Past {
    /// Reads a run file; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Text {
            #[serde(flatten)]
            setting: Setting,
            #[serde(default)]
            scratch: BTreeMap<String, u64>,
            #[serde(default)]
            case: Vec<Case>,
        }
        toml::from_str(text).ok().map(|Text { setting, scratch, case }| Self { setting, scratch, cases: case })
    }
}

/// A moment as TOML writes it, to the second, in UTC.
#[must_use]
pub fn utc(moment: SystemTime) -> Datetime {
    let seconds = moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let part = |n: u64| u8::try_from(n).expect("parts of a day and month are below 100");
    Datetime {
        date: Some(Date { year, month, day }),
        time: Some(Time {
            hour: part(second_of_day / 3600),
            minute: part(second_of_day / 60 % 60),
            second: Some(part(second_of_day % 60)),
            nanosecond: None,
        }),
        offset: Some(Offset::Z),
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn date(mut days: u64) -> (u16, u8, u8) {
    let leap = |year: u16| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, u8::try_from(days + 1).expect("a month has at most 31 days"))
}
