//! Facts about tensors and memory that need no device: sizes, element types, shapes, distances.

pub mod bytes;
pub mod distance;
pub mod dtype;
pub mod shape;
pub mod tensor_meta;

pub use bytes::{SizeError, format_bytes};
pub use distance::relative_distance;
pub use dtype::DType;
pub use shape::Shape;
pub use tensor_meta::TensorMeta;
