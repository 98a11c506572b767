//! `runner replay`: a history of allocations through the allocator: what PyTorch would have counted, under one setting or several.

mod command;
mod compare;
mod source;

pub(super) use command::{Args, run};
