//! `adam`: Adam and AdamW.

pub mod rule;
