//! The command line: one file per command, and the only place where prediction and training meet.

mod args;
mod calibrate;
mod check;
mod completions;
mod console;
mod crew;
mod device;
mod devices;
mod diff;
mod dump;
mod entry;
mod exit;
mod explain;
mod export;
mod fit;
mod import;
mod inputs;
mod interrupt;
mod load;
mod machine;
mod man;
mod merge;
mod names;
mod out_of_memory;
mod pack;
mod plot;
mod predict;
mod record;
mod replay;
mod run;
mod schema;
mod selftest;
mod share;
mod summary;
mod timeline;

pub use entry::main;
