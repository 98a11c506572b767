//! The command line: one file per command, and the only place where prediction and training meet.

mod args;
mod console;
mod device;
mod devices;
mod diff;
mod dump;
mod entry;
mod exit;
mod inputs;
mod load;
mod machine;
mod merge;
mod names;
mod pack;
mod plot;
mod predict;
mod record;
mod replay;
mod run;
mod schema;
mod selftest;
mod summary;
mod timeline;

pub use entry::main;
