//! `rmsprop`: RMSprop.

pub(super) mod kernel;
pub mod rule;
