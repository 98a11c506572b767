//! `adam`: Adam and AdamW.

pub(super) mod kernel;
pub mod rule;
