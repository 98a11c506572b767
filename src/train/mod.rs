//! The reference loop: what a plain PyTorch training script does, variable for variable, and the `[allocations]` scripts.
//!
//! Python's variables are spelled out: a name that is assigned anew drops its old value after the new one exists. Rows and losses go
//! to an [`Observer`] as they occur.

mod batches;
mod clock;
mod data;
mod interpreter;
mod observer;
mod outfit;
mod reference_loop;
mod scaler;
mod script;
mod state;

pub use observer::Observer;
pub use outfit::{Outfit, Stop};
pub use reference_loop::{train, train_with};
pub(crate) use scaler::Scaler;
pub use script::follow;
pub use state::misfits;
