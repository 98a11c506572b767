//! Two versions of results held against each other: what changed, drawn for a terminal, a pull request or a program.

pub mod compare;
pub mod fold;
pub mod json;
pub mod markdown;
pub mod text;
pub mod threshold;
pub mod words;

pub use compare::{Diff, compare};
pub use threshold::{Threshold, Verdict};
