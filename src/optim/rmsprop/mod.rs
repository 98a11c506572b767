//! `rmsprop`: RMSprop.

pub mod rule;
