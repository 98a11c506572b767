//! Reading PyTorch's settings text, as in `PYTORCH_ALLOC_CONF`: `max_split_size_mb:32,roundup_power2_divisions:[256:1,>:8]`.
//! Spaces mean nothing; of a key given twice, the last counts. Limits are checked in [`config`](super::config).

use std::fmt;
use std::str::FromStr;

use super::config::{AllocatorConfig, ConfigError, Divisions};
use crate::meta::bytes::MIB;

/// Every key, in the order of the documentation.
pub(super) const KEYS: [&str; 7] = [
    "max_split_size_mb",
    "roundup_power2_divisions",
    "garbage_collection_threshold",
    "expandable_segments",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "per_process_memory_fraction",
];

/// What PyTorch takes for a key that reaches no figure of this allocator.
#[derive(Debug, Clone, Copy)]
enum Ignored {
    /// `native`, which is what this is.
    Backend,
    Bool,
    Number,
    /// Threads: a power of two.
    Threads,
}

/// PyTorch's keys about locks, streams and pinned memory. Their values are checked and change nothing.
const IGNORED: [(&str, Ignored); 7] = [
    ("backend", Ignored::Backend),
    ("release_lock_on_cudamalloc", Ignored::Bool),
    ("pinned_use_cuda_host_register", Ignored::Bool),
    ("pinned_num_register_threads", Ignored::Threads),
    ("pinned_use_background_threads", Ignored::Bool),
    ("pinned_reserve_segment_size_mb", Ignored::Number),
    ("graph_capture_record_stream_reuse", Ignored::Bool),
];
/// `CUDAAllocatorConfig::pinned_max_register_threads`.
const MOST_THREADS: u64 = 128;

impl FromStr for AllocatorConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        // Sizes that must not be less than the large segment, which may come after them.
        let (mut split, mut rounding) = (None, None);
        let mut tokens = Tokens::new(text);
        while let Some(key) = tokens.next() {
            if let Some(&key) = KEYS.iter().find(|&&k| k == key) {
                tokens.expect(':', key)?;
                match key {
                    "max_split_size_mb" => split = Some(tokens.number(key)?),
                    "max_non_split_rounding_mb" => rounding = Some(tokens.number(key)?),
                    _ => config.read(key, &mut tokens)?,
                }
            } else if let Some(&(key, kind)) = IGNORED.iter().find(|(k, _)| *k == key) {
                tokens.expect(':', key)?;
                kind.check(key, &mut tokens)?;
            } else {
                return Err(ConfigError::UnknownKey { key });
            }
            if tokens.peek().is_some() {
                tokens.expect(',', "a value")?;
            }
        }
        split.map_or(Ok(()), |mb| config.set_max_split_size_mb(mb))?;
        rounding.map_or(Ok(()), |mb| config.set_max_non_split_rounding_mb(mb))?;
        Ok(config)
    }
}

impl Ignored {
    fn check(self, key: &'static str, tokens: &mut Tokens) -> Result<(), ConfigError> {
        match self {
            Self::Backend => match tokens.text() {
                name if name == "native" => {}
                found => return Err(ConfigError::Backend { found }),
            },
            Self::Bool => drop(tokens.bool(key)?),
            Self::Number => drop(tokens.number(key)?),
            Self::Threads => {
                let value = tokens.number(key)?;
                if !value.is_power_of_two() || value > MOST_THREADS {
                    return Err(ConfigError::Threads { key, value, most: MOST_THREADS });
                }
            }
        }
        Ok(())
    }
}

impl AllocatorConfig {
    fn read(&mut self, key: &'static str, tokens: &mut Tokens) -> Result<(), ConfigError> {
        match key {
            "large_segment_size_mb" => self.set_large_segment_size_mb(tokens.number(key)?),
            "garbage_collection_threshold" => self.set_garbage_collection_threshold(tokens.value(key, "a number between 0 and 1")?),
            "per_process_memory_fraction" => self.set_per_process_memory_fraction(tokens.value(key, "a number between 0 and 1")?),
            "expandable_segments" => {
                self.expandable_segments = tokens.bool(key)?;
                Ok(())
            }
            _ => {
                self.roundup_power2_divisions = Divisions::read(tokens)?;
                Ok(())
            }
        }
    }
}

impl fmt::Display for AllocatorConfig {
    /// The settings in PyTorch's notation, defaults and the memory limit left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        let mut written = Vec::new();
        let mut megabytes = |key: &str, value: u64, default: u64| {
            if value != default {
                written.push(format!("{key}:{}", value / MIB));
            }
        };
        megabytes("max_split_size_mb", self.max_split_size, default.max_split_size);
        megabytes("max_non_split_rounding_mb", self.max_non_split_rounding(), default.max_non_split_rounding());
        megabytes("large_segment_size_mb", self.large_segment_size, default.large_segment_size);
        if self.roundup_power2_divisions != default.roundup_power2_divisions {
            written.push(format!("{DIVISIONS}:{}", self.roundup_power2_divisions));
        }
        if self.garbage_collection_threshold > 0.0 {
            written.push(format!("garbage_collection_threshold:{}", self.garbage_collection_threshold));
        }
        if self.expandable_segments {
            written.push("expandable_segments:True".to_owned());
        }
        if self.per_process_memory_fraction < 1.0 {
            written.push(format!("per_process_memory_fraction:{}", self.per_process_memory_fraction));
        }
        f.write_str(&written.join(","))
    }
}

impl fmt::Display for Divisions {
    /// `4`, or an entry for every interval.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps();
        if steps.iter().all(|&s| s == steps[0]) && steps[0] > 0 {
            return write!(f, "{}", steps[0]);
        }
        let entries: Vec<String> = steps.iter().enumerate().map(|(i, s)| format!("{}:{s}", 1u64 << i)).collect();
        write!(f, "[{}]", entries.join(","))
    }
}

impl FromStr for Divisions {
    type Err = ConfigError;

    /// `4`, or `[256:1,512:2,>:8]`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut tokens = Tokens::new(text);
        let divisions = Self::read(&mut tokens)?;
        match tokens.next() {
            None => Ok(divisions),
            Some(found) => Err(ConfigError::Value { key: DIVISIONS, expected: "nothing more", found }),
        }
    }
}

const DIVISIONS: &str = "roundup_power2_divisions";

impl Divisions {
    /// The first entry of a list fills every interval up to its own, later ones set one interval, `>` fills those above the last.
    fn read(tokens: &mut Tokens) -> Result<Self, ConfigError> {
        if tokens.peek() != Some("[") {
            return Self::uniform(tokens.number(DIVISIONS)?);
        }
        tokens.expect('[', DIVISIONS)?;
        let mut steps = [0; Self::INTERVALS];
        let mut last: Option<usize> = None;
        while tokens.peek() != Some("]") {
            let bound = tokens.text();
            tokens.expect(':', &bound)?;
            let value = tokens.number(DIVISIONS)?;
            if value != 0 && !value.is_power_of_two() {
                return Err(ConfigError::NotAPowerOfTwo { what: "divisions", value });
            }
            if bound == ">" {
                steps[last.unwrap_or(0) + 1..].fill(value);
            } else {
                let bound = parse::<u64>(DIVISIONS, "a size in MiB or >", &bound)?;
                if !bound.is_power_of_two() {
                    return Err(ConfigError::NotAPowerOfTwo { what: "intervals", value: bound });
                }
                let interval = (bound.ilog2() as usize).min(Self::INTERVALS - 1);
                let first = if last.is_none() { 0 } else { interval };
                steps[first..=interval].fill(value);
                last = Some(interval);
            }
            if tokens.peek() != Some("]") {
                tokens.expect(',', "an entry")?;
            }
        }
        tokens.expect(']', DIVISIONS)?;
        Ok(Self::from_steps(steps))
    }
}

/// Words and the four separators `,:[]`.
struct Tokens {
    tokens: std::vec::IntoIter<String>,
}

impl Tokens {
    fn new(text: &str) -> Self {
        let mut tokens = vec![String::new()];
        for c in text.chars().filter(|c| *c != ' ') {
            if matches!(c, ',' | ':' | '[' | ']') {
                tokens.extend([c.to_string(), String::new()]);
            } else if let Some(word) = tokens.last_mut() {
                word.push(c);
            }
        }
        tokens.retain(|t| !t.is_empty());
        Self { tokens: tokens.into_iter() }
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.as_slice().first().map(String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        self.tokens.next()
    }

    fn text(&mut self) -> String {
        self.next().unwrap_or_default()
    }

    fn expect(&mut self, expected: char, after: &str) -> Result<(), ConfigError> {
        match self.next() {
            Some(t) if t.starts_with(expected) => Ok(()),
            found => Err(ConfigError::Token { expected, after: after.to_owned(), found }),
        }
    }

    fn bool(&mut self, key: &'static str) -> Result<bool, ConfigError> {
        match self.text().as_str() {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(ConfigError::Value { key, expected: "True or False", found: other.to_owned() }),
        }
    }

    fn number(&mut self, key: &'static str) -> Result<u64, ConfigError> {
        self.value(key, "a whole number")
    }

    fn value<T: FromStr>(&mut self, key: &'static str, expected: &'static str) -> Result<T, ConfigError> {
        parse(key, expected, &self.text())
    }
}

fn parse<T: FromStr>(key: &'static str, expected: &'static str, text: &str) -> Result<T, ConfigError> {
    text.parse().map_err(|_| ConfigError::Value { key, expected, found: text.to_owned() })
}
