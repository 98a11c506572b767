//! From layers to operators: what a network is, before anything runs.

pub mod plan;
pub mod script;

pub use plan::{Body, Checkpointing, Init, KeepLoss, Layer, LayerId, Loop, Plan, Program, StateKind, StateTensor, Step, ValueId, Work};
pub use script::{Script, ScriptStep};
