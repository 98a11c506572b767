//! `runner replay`: a history of allocations through the allocator: what PyTorch would have counted, under one setting or several.

mod command;
mod compare;
mod source;

pub(super) use command::{Args, run};
pub(super) use source::{Content, Source, content, device_of, of_file, one_case, read, stack_names};
