//! Facts about tensors and memory that need no device: sizes, element types, shapes, distances; and text as messages repeat it.

pub mod bytes;
pub mod distance;
pub mod dtype;
pub mod quote;
pub mod shape;
pub mod tensor_meta;

pub use bytes::{SizeError, format_bytes};
pub use distance::relative_distance;
pub use dtype::DType;
pub use quote::{cut, in_short, plain, short};
pub use shape::Shape;
pub use tensor_meta::TensorMeta;
