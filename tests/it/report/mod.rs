//! What becomes of rows, without a run: joined, folded, drawn, and as text.

mod joining;
mod pace;
mod pictures;
mod shards;
mod table;
mod text;
mod thresholds;
