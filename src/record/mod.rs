//! The words in which training and prediction speak, and to which reports listen.

pub mod category;
pub mod device_memory;
pub mod micro_step;
pub mod phase;
pub mod row;
pub mod running;
pub mod timeline;

pub use category::{Categories, Category};
pub use device_memory::DeviceMemory;
pub use micro_step::{Load, MicroStep, StepTimes};
pub use phase::Phase;
pub use row::{At, Measured, Memory, Predicted, Status};
pub use running::{About, Pass, Running};
pub use timeline::{Change, Moment, Timeline};
