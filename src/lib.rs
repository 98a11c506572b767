//! Runs declarative training experiments and writes, per phase and in bytes, the GPU memory they take: measured beside predicted.
//!
//! Reading order, and what each module must never know:
//!
//! 1. [`meta`]: shapes, element types, sizes. Facts without a device.
//! 2. [`record`]: phases, categories, rows; the words in which training and prediction speak.
//! 3. [`alloc`]: PyTorch's caching allocator as pure policy. Never a tensor or a device.
//! 4. [`gpu`]: the catalogue of GPU models.
//! 5. [`ops`] and [`optim`]: operators and optimizers, a rule (memory from shapes) and kernels (computation) each.
//! 6. [`model`]: from layers to a plan of operators over values.

pub mod alloc;
pub mod gpu;
pub mod meta;
pub mod model;
pub mod ops;
pub mod optim;
pub mod record;
