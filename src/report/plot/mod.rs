//! Pictures of results: memory over the phases of a case, and peaks over a sweep, as SVG alone or in a page of their own.

pub mod cases;
pub mod chart;
pub mod curves;
pub mod memory;
pub mod page;
pub mod palette;
pub mod phases;
pub mod scale;
pub mod sweep;
pub mod words;

pub use chart::{Chart, Width};
pub use page::{Plot, Unknown};
