//! `to_copy`: A copy in another element type: a cast.

pub mod rule;
