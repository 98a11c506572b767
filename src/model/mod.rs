//! From layers to operators: what a network is, before anything runs.

pub mod field;
pub mod layer;
pub mod loss;
pub mod lowering;
pub mod network;
pub mod plan;
pub mod script;
pub mod versions;

pub use loss::Loss;
pub use network::{Lowered, Misfit, Network};
pub use plan::{
    Body, Checkpointing, FlatPlace, Init, KeepLoss, Layer, LayerId, Loop, Plan, Program, StateKind, StateTensor, Step, ValueId, Work,
};
pub use script::{Script, ScriptStep};
