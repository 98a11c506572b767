//! The experiment language: a TOML file, read with the place of every value, checked for all mistakes at once, and resolved to
//! cases that are ready to run.
//!
//! Reading order: `case` (what comes out), `tables` (what may be written), `document`, `syntax`, `read`, `resolve`, `data`, `refuse`,
//! `sweep`, `set`, `load`, then `diagnostic` and `schema`.

pub mod case;
mod data;
pub mod diagnostic;
mod document;
pub mod import;
pub mod load;
mod read;
mod refuse;
mod resolve;
pub mod schema;
mod script;
mod set;
mod spell;
mod sweep;
mod syntax;
pub mod tables;
mod train;
mod words;

pub use case::{Case, Experiment};
pub use diagnostic::{Diagnostic, Diagnostics, Source, Span};
pub use load::{Draft, Overrides, load, load_str, load_str_for, load_with};
