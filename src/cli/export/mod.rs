//! `runner export`: an experiment for other programs.

mod command;
mod torch;

pub(super) use command::{Args, run};
