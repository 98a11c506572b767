//! `runner fit`: the most that fits, and what else would.

mod command;
mod render;
mod switches;
mod trial;

pub(super) use command::{Args, run};
