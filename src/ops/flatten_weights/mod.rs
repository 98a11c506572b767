//! `flatten_weights`: All weights of a recurrent network in one buffer, in another type.

pub(super) mod kernel;
pub mod rule;
