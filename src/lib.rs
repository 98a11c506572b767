//! Runs declarative training experiments and writes, per phase and in bytes, the GPU memory they take: measured beside predicted.
//!
//! Reading order, and what each module must never know:
//!
//! 1. [`meta`]: shapes, element types, sizes. Facts without a device.
//! 2. [`record`]: phases, categories, rows; the words in which training and prediction speak.
//! 3. [`gpu`]: the catalogue of GPU models.
//! 4. [`ops`] and [`optim`]: operators and optimizers, a rule (memory from shapes) and kernels (computation) each.
//! 5. [`model`]: from layers to a plan of operators over values.

pub mod gpu;
pub mod meta;
pub mod model;
pub mod ops;
pub mod optim;
pub mod record;
