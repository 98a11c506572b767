//! Devices: what computes. Where memory comes from is the allocator's [`Backing`](crate::alloc::Backing); a device only reads and
//! writes the addresses that it is given.

pub mod cuda;
pub mod host;
mod kind;
mod operand;

pub use kind::Device;
pub use operand::{Operand, Spread};
