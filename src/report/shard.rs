//! Shards: a sweep cut into shares that machines run apart from each other, and the CSV of each share by name.
//!
//! The contract, whole: shard `k/n` takes the cases whose place in the experiment's own plan, counted from 0, leaves `k − 1` when
//! divided by `n`; it writes them in plan order to `NAME.shard-k-of-n.csv`, where a share without cases has the header alone.
//! Invariant: the shards of one `n` are disjoint and together everything, so the plan is their interleaving and nobody needs to
//! see the experiment to put it together.

use std::fmt;
use std::str::FromStr;

/// Share `index` (from 1) of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    index: usize,
    count: usize,
}

/// Text that is no shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a shard: write K/N with 1 ≤ K ≤ N, as in 2/8")]
pub struct ShardError(String);

impl Shard {
    /// Share `index`, from 1, of `count`; `None` where there is no such share.
    #[must_use]
    pub fn new(index: usize, count: usize) -> Option<Self> {
        (1..=count).contains(&index).then_some(Self { index, count })
    }

    /// Which share, from 1.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// How many shares there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.count
    }

    /// Whether it takes the plan's case number `place`, from 0.
    #[must_use]
    pub fn takes(self, place: usize) -> bool {
        place % self.count == self.index - 1
    }

    /// How many of a plan's `cases` it takes.
    #[must_use]
    pub fn share_of(self, cases: usize) -> usize {
        (cases + self.count - self.index) / self.count
    }

    /// The stem of its CSV: `adamw` → `adamw.shard-2-of-8`.
    #[must_use]
    pub fn stem(self, name: &str) -> String {
        format!("{name}.shard-{}-of-{}", self.index, self.count)
    }

    /// What [`Shard::stem`] put together: the experiment's name and the shard.
    #[must_use]
    pub fn of_stem(stem: &str) -> Option<(&str, Self)> {
        let (name, shard) = stem.rsplit_once(".shard-")?;
        let (index, count) = shard.split_once("-of-")?;
        Some((name, Self::new(number(index)?, number(count)?)?))
    }
}

/// Digits without a sign or leading zeros, so that a shard has one name.
fn number(text: &str) -> Option<usize> {
    (text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0')).then(|| text.parse().ok()).flatten()
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        text.split_once('/')
            .and_then(|(index, count)| Self::new(number(index)?, number(count)?))
            .ok_or_else(|| ShardError(text.to_string()))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}
