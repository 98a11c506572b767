//! Autograd: what remembers a forward pass, and walks it back.
//!
//! As in PyTorch, an operator over a variable that requires a gradient makes a node; its output variables hold the node, the node
//! holds what backward needs and the nodes of its inputs. Nothing else keeps a graph alive: it dies with the last variable over
//! it, whether backward ran or not. Backward runs nodes in reverse order of their creation and releases what each one saved as soon
//! as it is done.
//!
//! Nothing here knows layers or plans; a checkpointed region is whatever implements [`Region`].

mod accumulate;
mod checkpoint;
mod engine;
mod node;
mod saved;
mod tape;
mod variable;

pub use checkpoint::Region;
pub use engine::backward;
pub use tape::{Halt, Tape};
pub use variable::{Parameter, Variable};
