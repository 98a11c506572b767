//! Experiments and cases: what the language means, ready to run. They hold no place in any file.

use crate::alloc::AllocatorConfig;
use crate::data::Feed;
use crate::model::Work;

/// One experiment file.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The file's stem.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// The sweep's product, last axis fastest; one case without a sweep.
    pub cases: Vec<Case>,
}

/// One point of the sweep.
#[derive(Debug, Clone)]
pub struct Case {
    /// The CSV's `case` column: `key=value` joined by one space in axis order; empty without a sweep.
    pub key: String,
    /// The caching allocator's settings, the memory limit among them.
    pub allocator: AllocatorConfig,
    /// What runs.
    pub work: Work,
    /// Where batches come from; `None` where they are synthetic.
    pub feed: Option<Feed>,
    /// Steps from one loss that is waited for and told to the next; without, every loss is waited for and none told.
    pub log: Option<u64>,
    /// Steps from one save to the next, where there are any.
    pub save: Option<u64>,
    /// The case as an experiment file of its own: overrides and sweep applied, defaults written out.
    pub resolved: toml::Table,
}
