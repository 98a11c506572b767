//! `runner explain`: where the memory of an experiment goes.

mod command;
mod fold;
mod json;
mod text;

pub(super) use command::{Args, run};
