//! `to_copy`: A copy in another element type: a cast.

mod kernel;
pub mod rule;
