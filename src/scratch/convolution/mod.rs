//! Workspaces of cuDNN's convolutions without cuDNN: formulas (`plan`), trees that say which of them holds (`trees`), and how such trees are
//! grown from a library's answers (`grow`).

mod answers;
mod geometry;
mod grid;
mod grow;
mod label;
mod measure;
mod plan;
mod rule;
mod tree;
mod trees;
mod word;

pub use answers::{Answer, AnswersError, HEAVIEST, Settings, read_answers, write_answers};
pub use grid::grid;
pub use grow::{Accuracy, accuracy, grow, part};
pub use trees::{Trees, TreesError};

pub(super) use rule::bytes;
