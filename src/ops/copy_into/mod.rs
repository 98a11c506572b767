//! `copy_into`: One tensor copied into its place in a larger one, in that one's type.

mod kernel;
pub mod rule;
