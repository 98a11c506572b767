//! The allocator, against PyTorch's own recordings and against its invariants.

mod best_fit;
mod command;
mod comparing;
mod config;
mod failures;
mod pages;
mod placement;
mod properties;
mod replays;
mod sites;
mod snapshots;
mod traces;
