//! What a person reads and what a review keeps: consumers of rows. Nothing here knows how a row came about.

pub mod case;
pub mod committed;
pub mod diff;
pub mod figure;
pub mod files;
pub mod fold;
pub mod journal;
pub mod merge;
pub mod number;
pub mod pace;
pub mod plot;
pub mod point;
pub mod progress;
pub mod read;
pub mod read_error;
pub mod results;
pub mod run_file;
pub mod shard;
pub mod source;
pub mod table;
pub mod training;
pub mod words;

pub use case::{CaseReport, Joined, Labels, TrainingLabels, join};
pub use table::Table;
