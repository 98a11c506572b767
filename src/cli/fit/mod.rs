//! `runner fit`: the most that fits, and what else would.

mod cheapest;
mod command;
mod render;
mod switches;
mod trial;

pub(super) use cheapest::cheapest;
pub(super) use command::{Args, run};
