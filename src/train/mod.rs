//! The reference loop: what a plain PyTorch training script does, variable for variable, and the `[allocations]` scripts.
//!
//! Python's variables are spelled out: a name that is assigned anew drops its old value after the new one exists. Rows and losses go
//! to an [`Observer`] as they occur.
//!
//! Reading order: `observer` and `outfit` (what a run is given), `interpreter` (a program's steps on a tape), `setup`, `inputs` (over
//! `batches` and `data`), `scaler`, `reference_loop`, and what it tells: `clock`, `untold`, `state`. `script` stands alone.

mod batches;
mod clock;
mod data;
mod inputs;
mod interpreter;
mod observer;
mod outfit;
mod reference_loop;
mod scaler;
mod script;
mod setup;
mod state;
mod untold;

pub use observer::Observer;
pub use outfit::{Outfit, Stop};
pub use reference_loop::{train, train_with};
pub(crate) use scaler::Scaler;
pub use script::follow;
pub use state::misfits;
