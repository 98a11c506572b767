//! `runner selftest`: every operator and optimizer on a device, held against the host's f64.

mod cases;
mod codec;
mod command;
mod operators;
mod optimizers;
mod report;

pub(super) use command::{Args, run};
