//! The integration tests: one binary, a module a topic.
#![allow(clippy::unwrap_used)] // a test that unwraps in vain fails, as it should

mod alloc;
mod bench;
mod calibrate;
mod check;
mod corpus;
mod cuda;
mod data;
mod diff;
mod edges;
mod executor;
mod experiment;
mod experiments;
mod explain;
mod export;
#[cfg(target_os = "linux")]
mod fake_cuda;
mod fidelity;
mod fit;
mod gradients;
mod host;
mod import;
#[cfg(unix)]
mod interrupt;
mod io;
mod large;
mod losses;
mod merge;
mod meta;
mod order;
mod plot;
mod readme;
mod report;
mod results;
mod rules;
mod run;
mod save;
mod scratch;
mod search;
mod selftest;
mod steady;
mod support;
mod sweep;
mod whole;
