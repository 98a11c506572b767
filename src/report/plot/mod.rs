//! Pictures of results: memory over the phases of a case, peaks over a sweep, and what a run did with its time, as SVG alone or in a page
//! of their own.

pub mod cases;
pub mod chart;
pub mod curves;
pub mod lanes;
pub mod memory;
pub mod page;
pub mod palette;
pub mod phases;
pub mod scale;
pub mod sweep;
pub mod time_page;
pub mod words;

pub use chart::{Chart, Width};
pub use page::{Plot, Unknown};
