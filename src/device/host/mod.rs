//! The CPU as a device: real memory behind the allocator's addresses, and a vocabulary of computations over it. What an operator
//! computes is its own kernel's; here is only how to walk, reduce and multiply.
//!
//! Invariant: the number of threads never changes a result. Work is cut by shape alone and partial results are combined in order.

mod arena;
mod backing;
mod element;
mod lend;
mod map;
mod matmul;
mod philox;
mod reduce;
mod rows;
mod view;

pub use arena::{Arena, Extent};
pub use backing::HostBacking;
pub use element::{Encoded, Real};
pub use lend::Host;
pub(crate) use map::{computes_in, in_f32, in_f64, map, map_views, with_real};
pub use matmul::Field;
pub(crate) use matmul::{Factor, multiply};
pub use philox::Philox;
pub(crate) use reduce::sum;
pub use rows::Row;
pub(crate) use rows::{maximum, rows};
pub use view::{View, ViewMut};
