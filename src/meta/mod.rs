//! Facts about tensors and memory that need no device: sizes, element types, shapes.

pub mod bytes;
pub mod dtype;
pub mod shape;
pub mod tensor_meta;

pub use bytes::{SizeError, format_bytes};
pub use dtype::DType;
pub use shape::Shape;
pub use tensor_meta::TensorMeta;
